//===- IntoChecks.cpp - the view that kept rows are written into ----------===//

#include "runtime/plan/Plan.h"

#include "runtime/base/Boundary.h"
#include "runtime/cache/CacheView.h"

using namespace kvc::rt;

/// Numbers that are written for each row: heads with places of their own.
static void checkNumbers(const kvc_cache_view &into, bool bySlot,
                         int64_t batchStride, int64_t headStride,
                         const char *name) {
  // By slot they are as far apart as the slots are.
  bool heads =
      headStride != 0 || into.kv_heads == 1 ||
      (bySlot && (into.table.head_stride != 0 ||
                  (into.k.head_stride == 0 && into.v.head_stride == 0)));
  bool sequences =
      batchStride != 0 || into.batch == 1 ||
      (bySlot && (into.kind == KVC_PAGED ||
                  (into.k.batch_stride == 0 && into.v.batch_stride == 0)));
  if (!heads || !sequences)
    throw fail(
        KVC_BAD_ARGUMENT,
        "{} are written for each row and must not be shared: {} must not "
        "be 0",
        name, heads ? "batch_stride" : "head_stride");
}

namespace {

/// What `into` must have as the cache has it, where both are one memory.
class Alike {
public:
  template <typename T>
  void field(const char *name, T given, T expected) const {
    if (given != expected)
      throw fail(KVC_BAD_ARGUMENT,
                 "into shares memory with the cache and must be laid out as it "
                 "is: {} must be {}, got {}",
                 name, expected, given);
  }
  void numbers(const char *name, const kvc_numbers &given,
               const kvc_numbers &expected) const {
    field(name, static_cast<const void *>(given.data),
          static_cast<const void *>(expected.data));
    if (!given.data)
      return;
    field(name, given.batch_stride, expected.batch_stride);
    field(name, given.head_stride, expected.head_stride);
  }
  void plane(const char *name, const kvc_plane &given,
             const kvc_plane &expected) const {
    field(name, static_cast<const void *>(given.data),
          static_cast<const void *>(expected.data));
    field(name, given.batch_stride, expected.batch_stride);
    field(name, given.head_stride, expected.head_stride);
    field(name, given.row_stride, expected.row_stride);
    field(name, given.page_stride, expected.page_stride);
  }
};

} // namespace

static kvc_plane planeOf(const kvc_rows &rows) {
  return {const_cast<void *>(rows.data), rows.batch_stride, rows.head_stride,
          rows.row_stride, 0};
}

/// Rows are moved within the cache, or within the prompt where there is none.
static void checkInPlace(const kvc_layer_args &args,
                         const kvc_cache_view &cache,
                         const kvc_cache_view &into) {
  constexpr Alike same;
  bool prompt = !cache.k.data;
  same.field("kind", int(into.kind), int(prompt ? KVC_DENSE : cache.kind));
  same.plane("k", into.k, prompt ? planeOf(args.k) : cache.k);
  same.plane("v", into.v, prompt ? planeOf(args.v) : cache.v);
  same.numbers("offsets", into.offsets, cache.offsets);
  same.field("slots", into.slots, prompt ? into.slots : cache.slots);
  if (into.kind == KVC_PAGED) {
    same.numbers("table", into.table, cache.table);
    same.numbers("v_table", into.v_table, cache.v_table);
    same.field("table_entries", into.table_entries, cache.table_entries);
    same.field("page_rows", into.page_rows, cache.page_rows);
    same.field("pages", into.pages, cache.pages);
  }
}

/// Numbers in the memory of those that are read move as their rows do.
static void checkNumbersInPlace(const kvc_layer_args &args,
                                const kvc_cache_view &cache,
                                const kvc_cache_view &into) {
  constexpr Alike same;
  if (into.positions.data && into.positions.data == cache.positions.data) {
    same.plane("positions", into.positions, cache.positions);
    same.field("positions_by_slot", into.positions_by_slot,
               cache.positions_by_slot);
  }
  const kvc_row_states &from = args.row_states, &to = args.into_states;
  if (!to.data || to.data != from.data)
    return;
  same.field("into_states.state_stride", to.state_stride, from.state_stride);
  same.field("into_states.batch_stride", to.batch_stride, from.batch_stride);
  same.field("into_states.head_stride", to.head_stride, from.head_stride);
  same.field("into_states.row_stride", to.row_stride, from.row_stride);
  same.field("into_states.page_stride", to.page_stride, from.page_stride);
  same.field("into_states.by_slot", to.by_slot, from.by_slot);
}

void kvc_plan::openInto(const kvc_layer_args &args, const kvc_cache_view &cache,
                        kvc_cache_view &into) const {
  if (!options.into)
    return;
  constexpr const char *why = "the plan writes into a view";
  absent(args.k_out, "k_out", why);
  absent(args.v_out, "v_out", why);
  absent(args.positions_out, "positions_out", why);
  absent(args.row_states_out, "row_states_out", why);
  zero(args.out_rows, "out_rows", why);
  zero(args.slack, "slack", why);
  CacheView view(args.into, "into", /*hasRows=*/false);
  into = view.fields();
  checkView(view, options.into, args.batch);
  if (view.members())
    throw fail(KVC_BAD_ARGUMENT, "into.members must be null: what rows "
                                 "represent goes to member_rows");
  for (auto [plane, name] :
       {std::pair{&into.k, "into.k"}, {&into.v, "into.v"}}) {
    checkAligned(plane->data, name);
    for (int64_t stride : {plane->batch_stride, plane->head_stride,
                           plane->row_stride, plane->page_stride})
      checkStride(stride, name);
  }
  view.checkApart();
  if (into.positions.data)
    checkNumbers(into, into.positions_by_slot, into.positions.batch_stride,
                 into.positions.head_stride, "into.positions");
  if (args.into_states.data)
    checkNumbers(into, args.into_states.by_slot, args.into_states.batch_stride,
                 args.into_states.head_stride, "into_states");
  if (args.offsets == into.offsets.data)
    throw fail(KVC_BAD_ARGUMENT, "offsets must not be those of into, which "
                                 "kernels read");
  bool inPlace = into.k.data == args.k.data;
  if (inPlace || into.v.data == args.v.data)
    checkInPlace(args, cache, into);
  checkNumbersInPlace(args, cache, into);
  if (!inPlace && into.k.data == args.k_raw.data)
    throw fail(KVC_BAD_ARGUMENT, "into.k must not be k_raw's memory, which is "
                                 "read while rows are written");
  if (args.freed_pages && (!inPlace || into.kind != KVC_PAGED))
    throw fail(KVC_BAD_ARGUMENT, "freed_pages must be null where rows do not "
                                 "move within pages");
  if (!module.device->onHost())
    return;
  view.checkStarts();
  if (inPlace && options.cache)
    CacheView(args.cache).checkOwnRows();
}
