// What a plan refuses of the cache that a call brings.

#include "test/runtime/PlannedRows.h"

#include <functional>
#include <string>

namespace {

class Call : public kvc::test::PlannedRows {
public:
  explicit Call(kvc_cache_kind kind) : PlannedRows(kind) {
    layer.positions_out = numbers;
  }
};

/// With what `change` does to it, the call fails with this.
void refuses(kvc_cache_kind kind, std::function<void(Call &)> change,
             kvc_status status, const std::string &error) {
  Call call(kind);
  change(call);
  EXPECT_EQ(call.evict(), status) << error;
  EXPECT_EQ(Call::error().substr(0, error.size()), error);
}

} // namespace

TEST(PlanCache, None) {
  for (kvc_cache_kind kind : {KVC_RAGGED, KVC_PAGED}) {
    Call good(kind);
    EXPECT_EQ(good.evict(), KVC_OK) << Call::error();
  }
  // Slots of each head's own are ragged ones.
  Call dense(KVC_RAGGED);
  dense.cache.kind = KVC_DENSE;
  dense.cache.offsets = {};
  EXPECT_EQ(dense.evict(), KVC_OK) << Call::error();
}

TEST(PlanCache, Kind) {
  Call unknown(KVC_RAGGED);
  unknown.options.cache = kvc_cache_kind(5);
  EXPECT_EQ(unknown.create(), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Call::error(), "cache must be 0 (dense), 1 (ragged), 2 (paged), "
                           "3 (merged) or 4 (merged_paged), got 5");
  Call other(KVC_RAGGED);
  other.options.cache = KVC_PAGED;
  EXPECT_EQ(other.create(), KVC_UNSUPPORTED);
  EXPECT_EQ(Call::error(), "policy 'test' is compiled for "
                           "head_dim=64,group=2,dtype=f32,cache=ragged; got "
                           "head_dim=64,group=2,dtype=f32,cache=paged");
  refuses(
      KVC_DENSE, [](Call &) {}, KVC_BAD_ARGUMENT,
      "cache must be null: the plan is for a dense prompt");
  refuses(
      KVC_RAGGED, [](Call &call) { call.layer.cache = nullptr; },
      KVC_BAD_ARGUMENT, "cache must not be null");
  refuses(
      KVC_RAGGED,
      [](Call &call) {
        call.cache.kind = KVC_PAGED;
        call.cache.table = {call.table, 4, 0};
        call.cache.table_entries = call.cache.pages = 4;
        call.cache.page_rows = 2;
      },
      KVC_BAD_ARGUMENT,
      "cache.kind must be 0 (dense) or 1 (ragged), as the plan has it, got 2");
  refuses(
      KVC_PAGED, [](Call &call) { call.cache.kind = KVC_RAGGED; },
      KVC_BAD_ARGUMENT,
      "cache.kind must be 2 (paged), as the plan has it, got 1");
}

TEST(PlanCache, Sizes) {
  auto one = [](std::function<void(kvc_cache_view &)> change,
                const std::string &error) {
    refuses(
        KVC_RAGGED, [&](Call &call) { change(call.cache); }, KVC_BAD_ARGUMENT,
        error);
  };
  one([](auto &cache) { cache.dtype = KVC_BF16; },
      "cache.dtype must be the call's (0), got 2");
  one([](auto &cache) { cache.batch = 2; },
      "cache.batch must be the call's (1), got 2");
  one([](auto &cache) { cache.kv_heads = 1; },
      "cache.kv_heads must be the call's (2), got 1");
  one([](auto &cache) { cache.head_dim = 32; },
      "cache.head_dim must be the call's (64), got 32");
  one(
      [](auto &cache) {
        cache.lengths = nullptr;
        cache.positions = {};
        cache.counts.head_stride = 0;
      },
      "cache.lengths must not be null");
}

TEST(PlanCache, TwoPlacesForOneThing) {
  auto one = [](std::function<void(Call &)> change) {
    refuses(KVC_RAGGED, change, KVC_BAD_ARGUMENT,
            "k, v and lengths must be null where a cache is given");
  };
  one([](Call &call) { call.layer.k.data = call.memory; });
  one([](Call &call) { call.layer.v.data = call.memory; });
  one([](Call &call) { call.layer.lengths = call.lengths; });
  refuses(
      KVC_RAGGED, [](Call &call) { call.layer.positions_out = nullptr; },
      KVC_BAD_ARGUMENT, "positions_out must not be null");
  refuses(
      KVC_RAGGED, [](Call &call) { call.layer.indices = call.positions; },
      KVC_BAD_ARGUMENT,
      "indices must not be the cache's, which kernels read to the end");
}

TEST(PlanCache, GivenIndicesAscendInsideTheHead) {
  int32_t indices[6] = {0, 2, 3, 0, 1, 2}, counts[2] = {2, 2};
  auto compact = [&] {
    Call call(KVC_RAGGED);
    EXPECT_EQ(call.create(), KVC_OK) << Call::error();
    call.layer.indices = indices;
    call.layer.index_capacity = 3;
    call.layer.counts = counts;
    return kvc_compact(call.plan, &call.layer, nullptr);
  };
  EXPECT_EQ(compact(), KVC_OK) << Call::error();
  indices[4] = 2; // head 1 has two rows
  EXPECT_EQ(compact(), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Call::error(), "sequence 0, head 1: indices must ascend below the "
                           "head's rows (2), got 2 behind 0");
  counts[0] = -1;
  EXPECT_EQ(compact(), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Call::error(),
            "sequence 0, head 0: counts must be 0 or more, got -1");
}

TEST(PlanCache, Since) {
  int32_t since = 100;
  auto evict = [&](kvc_cache_kind kind) {
    Call call(kind);
    call.layer.since = &since;
    return call.evict();
  };
  EXPECT_EQ(evict(KVC_MERGED), KVC_OK) << Call::error();
  for (auto [wrong, text] : {std::pair{-1, "-1"}, {101, "101"}}) {
    since = wrong;
    EXPECT_EQ(evict(KVC_MERGED), KVC_BAD_ARGUMENT);
    EXPECT_EQ(Call::error(),
              std::string("sequence 0: since must be 0 to T (100), got ") +
                  text);
    EXPECT_EQ(evict(KVC_RAGGED), KVC_OK) << "which does not read it";
  }
}

TEST(PlanCache, MergedRows) {
  refuses(
      KVC_RAGGED,
      [](Call &call) {
        float norm = 1;
        call.members = {sizeof call.members, call.numbers,
                        call.numbers,        &norm,
                        call.numbers,        1};
        call.cache.members = &call.members;
      },
      KVC_BAD_ARGUMENT,
      "cache.members must be null: the plan is for rows that are not merged");
}

TEST(PlanCache, PlansOfMergedRows) {
  Call good(KVC_MERGED);
  EXPECT_EQ(good.evict(), KVC_OK) << Call::error();
  auto bad = [](std::function<void(Call &)> change, const std::string &error) {
    refuses(KVC_MERGED, change, KVC_BAD_ARGUMENT, error);
    refuses(KVC_MERGED_PAGED, change, KVC_BAD_ARGUMENT, error);
  };
  bad([](Call &call) { call.cache.members = nullptr; },
      "cache.members must not be null: the plan is for merged rows");
  bad([](Call &call) { call.layer.rope = nullptr; }, "rope must not be null");
  bad([](Call &call) { call.layer.rope_positions = 0; },
      "rope_positions must be 1 or more, got 0");
  auto own = [&](auto field, auto theirs, const char *name) {
    bad([=](Call &call) { call.layer.*field = call.members.*theirs; },
        std::string(name) +
            " must not be the cache's, which kernels read to the end");
  };
  own(&kvc_layer_args::member_rows, &kvc_member_table::rows, "member_rows");
  own(&kvc_layer_args::member_positions, &kvc_member_table::positions,
      "member_positions");
  own(&kvc_layer_args::member_norms, &kvc_member_table::norms, "member_norms");
  own(&kvc_layer_args::member_counts, &kvc_member_table::counts,
      "member_counts");
  // As a row's members they are right, but not in order.
  bad([](Call &call) { call.memberPositions[1] = 0; },
      "sequence 0, head 0: members' positions must ascend from 0 to 99, got 0 "
      "behind 0");
  bad([](Call &call) { call.layer.rope_positions = 99; },
      "sequence 0, head 0: members' positions must ascend from 0 to 98, got 99 "
      "behind 40");
}

TEST(PlanCache, Alignment) {
  refuses(
      KVC_RAGGED, [](Call &call) { call.cache.k.data = call.memory + 4; },
      KVC_MISALIGNED, "k must be aligned to 16 bytes, got ");
  refuses(
      KVC_RAGGED, [](Call &call) { call.cache.k.row_stride = 66; },
      KVC_MISALIGNED, "strides of k must be multiples of 4 elements, got 66");
  refuses(
      KVC_PAGED, [](Call &call) { call.cache.v.page_stride = 130; },
      KVC_MISALIGNED,
      "strides of cache.v must be multiples of 4 elements, got 130");
  auto odd = [](auto field, const char *name) {
    refuses(
        KVC_MERGED,
        [=](Call &call) {
          auto at = reinterpret_cast<uintptr_t>(call.members.*field) + 1;
          call.members.*field =
              reinterpret_cast<std::decay_t<decltype(call.members.*field)>>(at);
        },
        KVC_MISALIGNED,
        std::string("cache.members.") + name + " must be aligned to 4 bytes");
  };
  odd(&kvc_member_table::rows, "rows");
  odd(&kvc_member_table::positions, "positions");
  odd(&kvc_member_table::norms, "norms");
  odd(&kvc_member_table::counts, "counts");
}

// What kernels take for 32 bits, and for numbers of which three can be added in them.
TEST(PlanCache, NumbersOf32Bits) {
  constexpr int64_t most = INT32_MAX, far = int64_t(1) << 40;
  auto stride = [&](kvc_cache_kind kind, int64_t kvc_plane::*field,
                    int64_t value, const std::string &name) {
    refuses(
        kind, [=](Call &call) { call.cache.k.*field = value; },
        KVC_EXCEEDS_LIMITS,
        name + " must be -2147483648 to 2147483647 elements, got " +
            std::to_string(value));
  };
  stride(KVC_RAGGED, &kvc_plane::row_stride, most + 1, "k.row_stride");
  stride(KVC_RAGGED, &kvc_plane::row_stride, -far, "k.row_stride");
  stride(KVC_PAGED, &kvc_plane::page_stride, far, "cache.k.page_stride");
  refuses(
      KVC_RAGGED, [](Call &call) { call.cache.slots = KVC_MAX_COUNT + 1; },
      KVC_EXCEEDS_LIMITS, "slots must be at most 536870911, got 536870912");
  // Heads and sequences may be as far apart as they like.
  Call apart(KVC_RAGGED);
  apart.cache.k.batch_stride = far;
  EXPECT_EQ(apart.evict(), KVC_OK) << Call::error();
}

// What lies in the arrays, on the host.
TEST(PlanCache, Rows) {
  refuses(
      KVC_RAGGED, [](Call &call) { call.lengths[0] = 101; }, KVC_EXCEEDS_LIMITS,
      "sequence 0: the length must be 1 to 100 (tokens), got 101");
  static int32_t none = 0;
  refuses(
      KVC_RAGGED, [](Call &call) { call.layer.budgets = &none; },
      KVC_EXCEEDS_LIMITS, "sequence 0: the budget must be at least 1, got 0");
  refuses(
      KVC_RAGGED, [](Call &call) { call.positions[1] = 0; }, KVC_BAD_ARGUMENT,
      "sequence 0, head 0: positions must ascend from 0 to 99, got 0 behind 0 "
      "at row 1");
  refuses(
      KVC_RAGGED, [](Call &call) { call.lengths[0] = 99; }, KVC_BAD_ARGUMENT,
      "sequence 0, head 0: positions must ascend from 0 to 98, got 99 behind "
      "40 at row 2");
  refuses(
      KVC_RAGGED, [](Call &call) { call.counts[1] = 5; }, KVC_EXCEEDS_LIMITS,
      "sequence 0, head 1: offset and count must be 0 or more and end within 8 "
      "slots, got 4 and 5");
  refuses(
      KVC_PAGED, [](Call &call) { call.table[2] = 4; }, KVC_BAD_ARGUMENT,
      "sequence 0, head 1: entries of cache.table must be 0 to 3, got 4 at 2");
  refuses(
      KVC_PAGED, [](Call &call) { call.table[1] = call.table[0]; },
      KVC_BAD_ARGUMENT,
      "sequence 0, head 0: entries of cache.table must differ, got page 3 at 0 "
      "and at 1");
}
