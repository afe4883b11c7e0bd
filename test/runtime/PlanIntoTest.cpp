// What a plan refuses of the view that kept rows are written into.

#include "test/runtime/PlannedRows.h"

#include <functional>
#include <string>

namespace {

/// Rows of the cache, or of a prompt, that go into a view like it; within the cache,
/// where that is one of rows.
class Call : public kvc::test::PlannedRows {
public:
  explicit Call(kvc_cache_kind cacheKind, kvc_cache_kind intoKind)
      : PlannedRows(cacheKind, intoKind) {
    into = viewOf(intoKind);
    layer.into = &into;
    layer.k_out = layer.v_out = nullptr;
    layer.out_rows = 0;
    if (!cacheKind) {
      layer.cache = nullptr;
      layer.k = layer.v = {other, 0, 0, 64};
      layer.lengths = lengths;
    }
  }

  alignas(256) char other[100 * 64 * 4], third[16 * 64 * 4];
  float states[8] = {};
  kvc_cache_view into = {};
};

void refuses(Call &call, kvc_status status, const std::string &error) {
  EXPECT_EQ(call.evict(), status) << error;
  EXPECT_EQ(Call::error().substr(0, error.size()), error);
}
/// With what `change` does to it, a call in place fails with this.
void refuses(kvc_cache_kind kind, std::function<void(Call &)> change,
             kvc_status status, const std::string &error) {
  Call call(kind, kind);
  change(call);
  refuses(call, status, error);
}
void refuses(std::function<void(Call &)> change, const std::string &error) {
  refuses(KVC_PAGED, change, KVC_BAD_ARGUMENT, error);
}

} // namespace

TEST(PlanInto, None) {
  for (kvc_cache_kind cache : {KVC_DENSE, KVC_RAGGED, KVC_PAGED})
    for (kvc_cache_kind into : {KVC_RAGGED, KVC_PAGED}) {
      Call good(cache, into);
      if (cache != into)
        good.into.k.data = good.third, good.into.v.data = good.third + 8 * 256;
      EXPECT_EQ(good.evict(), KVC_OK) << Call::error();
    }
  // A prompt moves within its own memory.
  Call prompt(KVC_DENSE, KVC_RAGGED);
  prompt.into.kind = KVC_DENSE;
  prompt.into.k = prompt.into.v = {prompt.other, 0, 0, 64, 0};
  prompt.into.offsets = {};
  EXPECT_EQ(prompt.evict(), KVC_OK) << Call::error();
}

TEST(PlanInto, Kind) {
  Call unknown(KVC_PAGED, KVC_PAGED);
  unknown.options.into = kvc_cache_kind(7);
  EXPECT_EQ(unknown.create(), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Call::error(),
            "into must be 0 (packed), 1 (ragged) or 2 (paged), got 7");
  Call other(KVC_PAGED, KVC_PAGED);
  other.options.into = KVC_DENSE;
  EXPECT_EQ(other.create(), KVC_UNSUPPORTED);
  EXPECT_EQ(Call::error(),
            "policy 'test' is compiled for "
            "head_dim=64,group=2,dtype=f32,cache=paged,into=paged; got "
            "head_dim=64,group=2,dtype=f32,cache=paged");
  refuses([](Call &call) { call.into = call.viewOf(KVC_RAGGED); },
          "into.kind must be 2 (paged), as the plan has it, got 1");
  refuses(
      KVC_RAGGED, [](Call &call) { call.into = call.viewOf(KVC_PAGED); },
      KVC_BAD_ARGUMENT,
      "into.kind must be 0 (dense) or 1 (ragged), as the plan has it, got 2");
  refuses([](Call &call) { call.layer.into = nullptr; },
          "into must not be null");
  refuses([](Call &call) { call.into.k.data = nullptr; },
          "into.k must not be null");
}

TEST(PlanInto, Packed) {
  Call call(KVC_DENSE, KVC_DENSE);
  call.into = call.viewOf(KVC_PAGED);
  refuses(call, KVC_BAD_ARGUMENT,
          "into must be null: the plan is for packed rows");
  call.layer.into = nullptr;
  call.layer.into_states.data = call.states;
  refuses(call, KVC_BAD_ARGUMENT,
          "into_states.data must be null: the plan is for packed rows");
  call.layer.into_states.data = nullptr;
  call.layer.freed_pages = call.numbers;
  refuses(call, KVC_BAD_ARGUMENT,
          "freed_pages must be null: the plan is for packed rows");
  call.layer.freed_pages = nullptr;
  call.layer.pack_to_tail = 1;
  refuses(call, KVC_BAD_ARGUMENT,
          "pack_to_tail must be 0: the plan is for packed rows, got 1");
}

TEST(PlanInto, HeadsMoveWithinTheirOwnSlots) {
  for (kvc_cache_kind kind : {KVC_RAGGED, KVC_PAGED}) {
    refuses(
        kind, [](Call &call) { call.offsets[1] = 2; }, KVC_EXCEEDS_LIMITS,
        "sequence 0, head 0: rows that are moved must end in front of slot 2, "
        "got offset 0 and count 3");
    // Rows that are read alone may be several heads'.
    Call apart(kind, kind);
    apart.offsets[1] = 2;
    apart.into.k.data = apart.third, apart.into.v.data = apart.third + 8 * 256;
    EXPECT_EQ(apart.evict(), KVC_OK) << Call::error();
    // A head without rows moves none.
    Call none(kind, kind);
    none.counts[0] = 0, none.offsets[0] = 6;
    EXPECT_EQ(none.evict(), KVC_OK) << Call::error();
  }
}

TEST(PlanInto, RoomOfPackedRows) {
  refuses([](Call &call) { call.layer.out_rows = 5; },
          "out_rows must be 0: the plan writes into a view, got 5");
  refuses([](Call &call) { call.layer.slack = 6; },
          "slack must be 0: the plan writes into a view, got 6");
}

TEST(PlanInto, Sizes) {
  refuses([](Call &call) { call.into.dtype = KVC_BF16; },
          "into.dtype must be the call's (0), got 2");
  refuses([](Call &call) { call.into.batch = 2; },
          "into.batch must be the call's (1), got 2");
  refuses([](Call &call) { call.into.kv_heads = 1; },
          "into.kv_heads must be the call's (2), got 1");
  refuses([](Call &call) { call.into.head_dim = 32; },
          "into.head_dim must be the call's (64), got 32");
}

TEST(PlanInto, TwoPlacesForOneThing) {
  auto one = [](std::function<void(kvc_layer_args &, Call &)> change,
                const std::string &name) {
    refuses([&](Call &call) { change(call.layer, call); },
            name + " must be null: the plan writes into a view");
  };
  one([](auto &layer, Call &call) { layer.k_out = call.other; }, "k_out");
  one([](auto &layer, Call &call) { layer.v_out = call.other; }, "v_out");
  one([](auto &layer, Call &call) { layer.positions_out = call.numbers; },
      "positions_out");
  one([](auto &layer, Call &call) { layer.row_states_out = call.states; },
      "row_states_out");
}

TEST(PlanInto, MergedRows) {
  Call call(KVC_PAGED, KVC_PAGED);
  float norm = 1;
  kvc_member_table members = {sizeof members, call.numbers, call.numbers,
                              &norm,          call.numbers, 1};
  call.into.members = &members;
  refuses(call, KVC_BAD_ARGUMENT,
          "into.members must be null: what rows represent goes to member_rows");
}

// While rows are written as they merge, members are read of this memory.
TEST(PlanInto, KeysBeforeRoPE) {
  Call prompt(KVC_DENSE, KVC_RAGGED);
  prompt.layer.k_raw = {prompt.third, 0, 0, 64};
  prompt.into.k.data = prompt.third;
  prompt.into.v.data = prompt.third + 8 * 256;
  refuses(prompt, KVC_BAD_ARGUMENT,
          "into.k must not be k_raw's memory, which is read while rows are "
          "written");
}

TEST(PlanInto, Alignment) {
  refuses(
      KVC_PAGED, [](Call &call) { call.into.k.data = call.other + 4; },
      KVC_MISALIGNED, "into.k must be aligned to 16 bytes, got ");
  refuses(
      KVC_PAGED, [](Call &call) { call.into.v.page_stride = 130; },
      KVC_MISALIGNED,
      "strides of into.v must be multiples of 4 elements, got 130");
}

// What is written for each row has a place of its own.
TEST(PlanInto, Apart) {
  refuses([](Call &call) { call.into.k.row_stride = 32; },
          "rows that are written must not overlap: row_stride must be at least "
          "head_dim (64), got 32");
  refuses([](Call &call) { call.into.positions.head_stride = 0; },
          "into.positions are written for each row and must not be shared: "
          "head_stride must not be 0");
  refuses(
      [](Call &call) {
        call.layer.into_states = {call.states, 0, 0, 0, 1, 0, 0};
      },
      "into_states are written for each row and must not be shared: "
      "head_stride must not be 0");
  refuses([](Call &call) { call.layer.offsets = call.offsets; },
          "offsets must not be the cache's, which kernels read to the end");
  refuses([](Call &call) { call.layer.counts = call.counts; },
          "counts must not be the cache's, which kernels read to the end");
  Call prompt(KVC_DENSE, KVC_RAGGED);
  prompt.layer.offsets = prompt.offsets;
  refuses(prompt, KVC_BAD_ARGUMENT,
          "offsets must not be those of into, which kernels read");
}

TEST(PlanInto, InPlace) {
  auto one = [](std::function<void(kvc_cache_view &, Call &)> change,
                const std::string &field) {
    refuses(
        [&](Call &call) { change(call.into, call); },
        "into shares memory with the cache and must be laid out as it is: " +
            field);
  };
  one([](auto &into, Call &call) { into.v.data = call.other; }, "v must be ");
  one([](auto &into, Call &call) { into.k.data = call.other; }, "k must be ");
  one([](auto &into, Call &) { into.k.page_stride = 256; },
      "k must be 128, got 256");
  one([](auto &into, Call &) { into.offsets = {}; }, "offsets must be ");
  one([](auto &into, Call &) { into.offsets.batch_stride = 4; },
      "offsets must be 2, got 4");
  one([](auto &into, Call &call) { into.table.data = call.numbers; },
      "table must be ");
  one([](auto &into, Call &call) { into.v_table = call.into.table; },
      "v_table must be ");
  one([](auto &into, Call &) { into.table_entries = 3; },
      "table_entries must be 4, got 3");
  one([](auto &into, Call &) { into.page_rows = 1; },
      "page_rows must be 2, got 1");
  one([](auto &into, Call &) { into.pages = 5; }, "pages must be 4, got 5");
  one([](auto &into, Call &) { into.positions.row_stride = 2; },
      "positions must be 1, got 2");
  one([](auto &into, Call &) { into.positions_by_slot = 1; },
      "positions_by_slot must be 0, got 1");
  one(
      [](auto &, Call &call) {
        call.layer.row_states = {call.states, 0, 0, 4, 1, 0, 0};
        call.layer.into_states = {call.states, 0, 0, 4, 2, 0, 0};
      },
      "into_states.row_stride must be 1, got 2");
  Call slots(KVC_RAGGED, KVC_RAGGED);
  slots.into.slots = 7;
  refuses(slots, KVC_BAD_ARGUMENT,
          "into shares memory with the cache and must be laid out as it is: "
          "slots must be 8, got 7");
  Call prompt(KVC_DENSE, KVC_PAGED);
  prompt.into.k.data = prompt.other;
  refuses(prompt, KVC_BAD_ARGUMENT,
          "into shares memory with the cache and must be laid out as it is: "
          "kind must be 0, got 2");
}

TEST(PlanInto, FreedPages) {
  refuses(
      [](Call &call) {
        call.into.k.data = call.other;
        call.into.v.data = call.other + 8 * 256;
        call.layer.freed_pages = call.numbers;
      },
      "freed_pages must be null where rows do not move within pages");
  refuses(
      KVC_RAGGED, [](Call &call) { call.layer.freed_pages = call.numbers; },
      KVC_BAD_ARGUMENT,
      "freed_pages must be null where rows do not move within pages");
}

// What lies in the arrays, on the host.
TEST(PlanInto, Arrays) {
  Call starts(KVC_DENSE, KVC_RAGGED);
  starts.offsets[1] = 9;
  refuses(starts, KVC_EXCEEDS_LIMITS,
          "sequence 0, head 1: offsets of into must be 0 to 8, got 9");
  // A prefix that two sequences share does not move.
  refuses(
      [](Call &call) { call.table[2] = 3; },
      "page 3 must be one sequence's and occur once where rows are moved, got "
      "it for sequence 0, head 0 and for sequence 0, head 1");
  // A head without a row has none, wherever in a page its first one would be.
  Call none(KVC_PAGED, KVC_PAGED);
  none.table[2] = 3;
  none.counts[1] = 0;
  none.offsets[1] = 5;
  EXPECT_EQ(none.evict(), KVC_OK) << Call::error();
}
