// What kvc_attend refuses, and that nothing is written then.

#include "runtime/base/Format.h"
#include "test/runtime/AttendCall.h"
#include "test/runtime/CacheErrors.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kvc::rt;
using namespace kvc::test;

namespace {

/// A call that is right, to be spoiled: two heads of three rows, in pages of two.
class AttendErrors : public CacheErrors {
public:
  using CacheErrors::refused;

  Random random{10};
  Cache cache = make();
  Call call{random, cache, 2, 1, KVC_F32};
  Laid laid{cache, Layout::PagesNHD, 2};
  Members members{random, cache, 4};

  Cache make() {
    Cache cache = {1, 2, 8, KVC_BF16, {10}, {}};
    for (int g = 0; g < 2; ++g) {
      Head head = {{2, 5, 9}, {}, {}};
      for (int r = 0; r < 3; ++r) {
        head.k.push_back(randomRow(random, 8, KVC_BF16));
        head.v.push_back(randomRow(random, 8, KVC_BF16));
      }
      cache.all.push_back(head);
    }
    return cache;
  }

  void SetUp() override {
    ASSERT_EQ(call.run(laid.view), KVC_OK) << lastError();
    std::fill(call.out.begin(), call.out.end(), std::byte{0xff});
  }
  void refused(kvc_status status, const std::string &text) override {
    EXPECT_EQ(kvc_attend(&call.args), status);
    EXPECT_EQ(lastError(), text);
    for (std::byte byte : call.out)
      ASSERT_EQ(byte, std::byte{0xff}); // nothing was written
  }
};

} // namespace

TEST_F(AttendErrors, Structs) {
  EXPECT_EQ(kvc_attend(nullptr), KVC_BAD_ARGUMENT);
  EXPECT_EQ(lastError(), "args must not be null");
  EXPECT_EQ(kvc_attend_workspace(&call.args, nullptr), KVC_BAD_ARGUMENT);
  EXPECT_EQ(lastError(), "bytes must not be null");
  call.args.cache = nullptr;
  refused(KVC_BAD_ARGUMENT, "cache must not be null");
  call.args.cache = &laid.view;
  laid.view.struct_size = 4;
  refused(KVC_ABI_MISMATCH, "cache.struct_size must be at least 8, got 4");
  laid.view.struct_size = sizeof laid.view;
  call.args.struct_size = 1 << 20;
  refused(KVC_ABI_MISMATCH,
          "args.struct_size must be at most 65536, got 1048576");
  struct {
    kvc_cache_view view;
    char newer[8];
  } larger = {laid.view, {1}};
  larger.view.struct_size = sizeof larger;
  call.args.struct_size = sizeof call.args;
  call.args.cache = &larger.view;
  EXPECT_EQ(kvc_attend(&call.args), KVC_ABI_MISMATCH);
  larger.newer[0] = 0;
  EXPECT_EQ(kvc_attend(&call.args), KVC_OK) << lastError();
}

TEST_F(AttendErrors, Targets) {
  call.args.target = KVC_CUDA;
  call.args.device = 64;
  refused(KVC_BAD_ARGUMENT, "device must be 0 to 63, got 64");
  call.args.target = KVC_PTX;
  call.args.device = 0;
  EXPECT_EQ(kvc_attend(&call.args), KVC_UNSUPPORTED); // nobody has enabled it
  call.args.target = kvc_target_kind(7);
  refused(KVC_BAD_ARGUMENT,
          "target must be 0 (host), 1 (CUDA) or 2 (PTX), got 7");
}

TEST_F(AttendErrors, Calls) {
  auto with = [&](auto change, kvc_status status, const std::string &text) {
    kvc_attend_args right = call.args;
    change(call.args);
    refused(status, text);
    call.args = right;
  };
  with([](auto &a) { a.q_heads = 5; }, KVC_BAD_ARGUMENT,
       "q_heads must be a multiple of cache.kv_heads, got 5 and 2");
  with([](auto &a) { a.q_heads = 0; }, KVC_BAD_ARGUMENT,
       "q_heads must be a multiple of cache.kv_heads, got 0 and 2");
  with([](auto &a) { a.queries = 0; }, KVC_BAD_ARGUMENT,
       "queries must be at least 1, got 0");
  with([](auto &a) { a.queries = 1u << 30; }, KVC_EXCEEDS_LIMITS,
       "queries * q_heads / kv_heads must be below 2^31, got 1073741824 * 2");
  with([](auto &a) { a.q.data = nullptr; }, KVC_BAD_ARGUMENT,
       "q must not be null");
  with([](auto &a) { a.out.data = nullptr; }, KVC_BAD_ARGUMENT,
       "out must not be null");
  with([](auto &a) { a.out_dtype = KVC_F16; }, KVC_BAD_ARGUMENT,
       "out_dtype must be 0 (f32) or the cache's, got 1");
  with([](auto &a) { a.scale = NAN; }, KVC_BAD_ARGUMENT,
       "scale must be finite, got nan");
  with([](auto &a) { a.max_rows = 2; }, KVC_EXCEEDS_LIMITS,
       "sequence 0, head 0: rows or members must be at most max_rows (2), got "
       "3");
  with([](auto &a) { a.lse = reinterpret_cast<float *>(2); }, KVC_MISALIGNED,
       "q, out and lse must be aligned to their elements (4 bytes), got 0x2");
  with([](auto &a) { a.max_rows = 5000; }, KVC_WORKSPACE_TOO_SMALL,
       "workspace must have 3904 bytes, got 0");
  alignas(64) char workspace[4096];
  with(
      [&](auto &a) {
        a.max_rows = 5000;
        a.workspace = nullptr;
      },
      KVC_BAD_ARGUMENT, "workspace must not be null");
  with(
      [&](auto &a) {
        a.max_rows = 5000;
        a.workspace = workspace + 4;
        a.workspace_bytes = 4000;
      },
      KVC_MISALIGNED,
      "workspace must be aligned to 64 bytes, got " +
          formatted("{}", static_cast<void *>(workspace + 4)));
}

TEST_F(AttendErrors, Views) {
  auto with = [&](auto change, kvc_status status, const std::string &text) {
    kvc_cache_view right = laid.view;
    change(laid.view);
    refused(status, text);
    laid.view = right;
  };
  with([](auto &v) { v.kind = kvc_cache_kind(7); }, KVC_BAD_ARGUMENT,
       "cache.kind must be 0 (dense), 1 (ragged) or 2 (paged), got 7");
  with([](auto &v) { v.dtype = kvc_dtype(7); }, KVC_BAD_ARGUMENT,
       "cache.dtype must be 0 (f32), 1 (f16) or 2 (bf16), got 7");
  with([](auto &v) { v.head_dim = 257; }, KVC_EXCEEDS_LIMITS,
       "cache.head_dim must be 1 to 256, got 257");
  with([](auto &v) { v.batch = 0; }, KVC_EXCEEDS_LIMITS,
       "cache.batch must be 1 to 65535, got 0");
  with([](auto &v) { v.kv_heads = 1025; }, KVC_EXCEEDS_LIMITS,
       "cache.kv_heads must be 1 to 1024, got 1025");
  with([](auto &v) { v.kind = KVC_DENSE, v.slots = 0; }, KVC_EXCEEDS_LIMITS,
       "cache.slots must be 1 to 2147483647, got 0");
  with([](auto &v) { v.page_rows = 6; }, KVC_BAD_ARGUMENT,
       "cache.page_rows must be a power of two, got 6");
  with([](auto &v) { v.pages = 0; }, KVC_EXCEEDS_LIMITS,
       "cache.pages must be 1 to 2147483647, got 0");
  with([](auto &v) { v.table_entries = 0; }, KVC_EXCEEDS_LIMITS,
       "cache.table_entries must be 1 to 2147483647, got 0");
  with([](auto &v) { v.k.data = nullptr; }, KVC_BAD_ARGUMENT,
       "cache.k must not be null");
  with([](auto &v) { v.v.data = nullptr; }, KVC_BAD_ARGUMENT,
       "cache.v must not be null");
  with([](auto &v) { v.v.data = reinterpret_cast<void *>(3); }, KVC_MISALIGNED,
       "cache.v must be aligned to 2 bytes, got 0x3");
  with([](auto &v) { v.counts.data = reinterpret_cast<int32_t *>(6); },
       KVC_MISALIGNED, "cache.counts must be aligned to 4 bytes, got 0x6");
  with([](auto &v) { v.counts.data = nullptr; }, KVC_BAD_ARGUMENT,
       "cache.counts must not be null");
  with([](auto &v) { v.table.data = nullptr; }, KVC_BAD_ARGUMENT,
       "cache.table of a paged cache must not be null");
  with([](auto &v) { v.kind = KVC_RAGGED, v.slots = 9; }, KVC_BAD_ARGUMENT,
       "cache.offsets of a ragged cache must not be null");
  with(
      [](auto &v) { v.lengths = nullptr; }, KVC_BAD_ARGUMENT,
      "cache.lengths must not be null where rows have positions or members, or "
      "heads counts of their own");
}

TEST_F(AttendErrors, Arrays) {
  refused(
      laid.counts[1], 7, KVC_EXCEEDS_LIMITS,
      "sequence 0, head 1: offset and count must be 0 or more and end within 6 "
      "slots, got 0 and 7");
  refused(
      laid.counts[0], -1, KVC_EXCEEDS_LIMITS,
      "sequence 0, head 0: offset and count must be 0 or more and end within 6 "
      "slots, got 0 and -1");
  refused(
      laid.table[1], 6, KVC_BAD_ARGUMENT,
      "sequence 0, head 0: entries of cache.table must be 0 to 5, got 6 at 1");
  refused(
      laid.table[0], -1, KVC_BAD_ARGUMENT,
      "sequence 0, head 0: entries of cache.table must be 0 to 5, got -1 at 0");
  refused(
      laid.lengths[0], 9, KVC_BAD_ARGUMENT,
      "sequence 0, head 0: positions must ascend from 0 to 8, got 9 behind 5 "
      "at "
      "row 2");
  int32_t table[3] = {0, 6, 0};
  laid.view.v_table = {table, 3, 0};
  refused(KVC_BAD_ARGUMENT,
          "sequence 0, head 0: entries of cache.v_table must be "
          "0 to 5, got 6 at 1");
  laid.view.v_table = {};
  table[2] = 99; // behind the rows
  laid.view.positions = {};
  refused(
      laid.lengths[0], 2, KVC_BAD_ARGUMENT,
      "sequence 0, head 0: a count must be at most the length (2) where rows "
      "have "
      "no positions, got 3");
  // Also where nobody has a row.
  int32_t counts[2] = {0, 0};
  const int32_t *theirs = laid.view.counts.data;
  laid.view.counts.data = counts;
  refused(laid.lengths[0], -1, KVC_EXCEEDS_LIMITS,
          "sequence 0: the length must be 0 or more, got -1");
  laid.view.counts.data = const_cast<int32_t *>(theirs);
  int32_t twice[6] = {2, 5, 5, 0, 1, 2}, negative[6] = {-1, 5, 6, 0, 1, 2};
  laid.view.positions = {twice, 6, 3, 1, 0};
  laid.view.positions_by_slot = 0;
  refused(KVC_BAD_ARGUMENT,
          "sequence 0, head 0: positions must ascend from 0 to 9, "
          "got 5 behind 5 at row 2");
  laid.view.positions.data = negative;
  refused(KVC_BAD_ARGUMENT,
          "sequence 0, head 0: positions must ascend from 0 to 9, "
          "got -1 first at row 0");
}

TEST_F(AttendErrors, MemberTables) {
  laid.view.members = &members.table;
  refused(KVC_BAD_ARGUMENT, "rope of a merged cache must not be null");
  call.args.rope = members.rope.data();
  call.args.rope_positions = 9;
  members.counts = {1, 0};
  members.table.counts = members.counts.data();
  members.rows[0] = members.positions[0] = 0;
  refused(KVC_BAD_ARGUMENT,
          "sequence 0: the length must be at most rope_positions "
          "(9), got 10");
  call.args.rope_positions = 10;
  members.rows[0] = 3;
  refused(KVC_BAD_ARGUMENT,
          "sequence 0, head 0: a member's row must be below the "
          "count (3), got 3");
  members.rows[0] = 2;
  members.positions[0] = 10;
  refused(KVC_BAD_ARGUMENT,
          "sequence 0, head 0: a member's position must be 0 to 9, "
          "got 10");
  members.counts[0] = 5;
  refused(KVC_EXCEEDS_LIMITS,
          "sequence 0, head 0: members must be 0 to 4 (their "
          "capacity), got 5");
  members.table.capacity = 0;
  refused(KVC_EXCEEDS_LIMITS,
          "cache.members.capacity must be 1 to 2147483647, got 0");
  members.table.norms = nullptr;
  refused(KVC_BAD_ARGUMENT, "cache.members.norms must not be null");
  members.table.struct_size = 0;
  refused(KVC_ABI_MISMATCH,
          "cache.members.struct_size must be at least 8, got 0");
  Cache odd = wholeCache(random, 1, 2, 7, KVC_BF16, 3);
  Laid other(odd, Layout::HeadsFirst);
  Members of(random, odd, 4);
  other.view.members = &of.table;
  call.args.cache = &other.view;
  refused(KVC_BAD_ARGUMENT, "head_dim of a merged cache must be even, got 7");
}
