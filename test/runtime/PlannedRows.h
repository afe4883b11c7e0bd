//===- PlannedRows.h - a small policy on a cache of rows ------------------===//

#ifndef KVC_TEST_RUNTIME_PLANNEDROWS_H
#define KVC_TEST_RUNTIME_PLANNEDROWS_H

#include "kvc/cache.h"
#include "runtime/base/Format.h"
#include "runtime/cache/CacheView.h"
#include "test/runtime/PlannedLayer.h"

#include <string>

namespace kvc::test {

/// A policy of one kernel. What is dense, or packed, the manifest does not say.
inline std::string manifestOfRows(kvc_cache_kind cache, kvc_cache_kind into) {
  auto field = [](const char *name, kvc_cache_kind kind) -> std::string {
    constexpr const char *words[] = {"dense", "ragged", "paged", "merged",
                                     "merged_paged"};
    return kind ? rt::formatted("\"{}\": \"{}\", ", name, words[kind]) : "";
  };
  return R"({"format": 2, "policy": "test", "queries": 0, "window": 4,
    "lse_buffer": null, "scores": null, "params": {}, "buffers": [],
    "variants": [{"head_dim": 64, "group": 2, "dtype": "f32", )" +
         field("cache", cache) + field("into", into) +
         R"("vector": 4, "kernels": [{"name": "score", "kind": "columns",
    "phase": "score", "block": 32, "grid": ["1", "1", "1"], "args": [)" +
         (rt::plansMembers(cache)
              ? R"("k", "rope", "member_rows", "since")"
              : R"("k", "k_batch", "k_token", "k_page", "slots")") +
         R"(],
    "skipped_with_lse": false}]}]})";
}

/// Two heads with three and two rows of 100 tokens; all of it is right.
class PlannedRows : public PlannedLayer {
public:
  explicit PlannedRows(kvc_cache_kind kind, kvc_cache_kind into = KVC_DENSE)
      : PlannedLayer(manifestOfRows(kind, into)) {
    EXPECT_EQ(opened, KVC_OK);
    options.cache = kind;
    options.into = into;
    cache = viewOf(kind);
    if (rt::plansMembers(kind))
      addMembers();
    layer.k = layer.v = {};
    layer.lengths = nullptr;
    layer.cache = &cache;
  }

  kvc_cache_view viewOf(kvc_cache_kind kind) {
    kvc_cache_view view = {};
    view.struct_size = sizeof view;
    bool paged = rt::plansPages(kind);
    view.kind = paged ? KVC_PAGED : kind == KVC_MERGED ? KVC_RAGGED : kind;
    view.dtype = KVC_F32;
    view.batch = 1;
    view.kv_heads = 2;
    view.head_dim = 64;
    view.k = {memory, 0, 0, 64, 2 * 64};
    view.v = {values, 0, 0, 64, 2 * 64};
    view.counts = {counts, 2, 1};
    view.offsets = {offsets, 2, 1};
    view.lengths = lengths;
    view.slots = 8;
    view.positions = {positions, 8, 4, 1, 0};
    if (paged) {
      view.table = {table, 4, 0};
      view.table_entries = 4;
      view.page_rows = 2;
      view.pages = 4;
    }
    return view;
  }

  /// Head 0 has four members, head 1 two; and places for those of the result.
  void addMembers() {
    members = {sizeof members, memberRows,   memberPositions,
               norms,          memberCounts, 4};
    cache.members = &members;
    layer.rope = angles;
    layer.rope_positions = 100;
    layer.member_rows = layer.member_positions = layer.member_counts = numbers;
    layer.member_norms = norms + 8;
    layer.member_capacity = 4;
  }

  kvc_member_table members = {};
  int32_t memberRows[8] = {0, 0, 1, 2, 0, 1, 0, 0}, memberCounts[2] = {4, 2},
          memberPositions[8] = {0, 7, 40, 99, 0, 99, 0, 0};
  float norms[16] = {}, angles[100 * 64] = {};
  alignas(256) char values[8 * 64 * 4];
  int32_t counts[2] = {3, 2}, offsets[2] = {0, 4}, lengths[1] = {100},
          positions[8] = {0, 40, 99, 0, 7, 99, 0, 0}, table[4] = {3, 1, 0, 2};
  kvc_cache_view cache = {};
};

} // namespace kvc::test

#endif // KVC_TEST_RUNTIME_PLANNEDROWS_H
