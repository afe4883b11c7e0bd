//===- Plan.h - a module, fitted to an engine's limits --------------------===//

#ifndef KVC_RUNTIME_PLAN_PLAN_H
#define KVC_RUNTIME_PLAN_PLAN_H

#include "runtime/base/Failure.h"
#include "runtime/plan/Module.h"

#include <vector>

namespace kvc::rt {
class CacheView;
}

struct kvc_plan {
  /// Throws Failure when no variant fits.
  kvc_plan(kvc_module &module, const kvc_plan_options &options);

  kvc_plan_info query() const;
  /// Enqueues the kernels of the phases [first, last]. Throws Failure before
  /// anything is launched if an argument is wrong. Allocates nothing unless it
  /// throws.
  void enqueue(const kvc_layer_args &args, kvc::rt::Phase first,
               kvc::rt::Phase last, void *stream) const;

  /// Enqueues what depends on the layer's weights alone, into args.prepared.
  void prepare(const kvc_layer_args &args, void *stream) const;

  /// Bytes to which q, k, v, k_raw, wo and what kept rows are written to must be aligned.
  uint64_t rowAlignment() const;

  /// Of the workspace and of each buffer in it.
  static constexpr uint64_t alignment = 256;
  /// Of what is prepared, which frameworks may copy to memory of theirs: what an access
  /// of a kernel needs.
  static constexpr uint64_t preparedAlignment = KVC_PREPARED_ALIGNMENT;

  kvc_module &module;
  const kvc_plan_options options;

private:
  const kvc::rt::Variant *variant = nullptr;
  /// Of its first kernel, among the device's.
  uint32_t firstKernel = 0;
  /// A buffer's place in the workspace, for the plan's limits; and, of those that
  /// prepare kernels leave, in memory of its own, of one sequence.
  struct Place {
    uint64_t offset;
    std::optional<uint64_t> prepared;
  };
  std::vector<Place> places;
  uint64_t workspaceBytes = 0, preparedBytes = 0;
  /// KVC_READS_* and KVC_MERGES, from the kernels' arguments; asked in every
  /// call.
  uint32_t inputs = 0;
  /// By phase: whether a kernel of it reads the values, in a call of this phase alone.
  std::array<bool, 4> readsValues = {};
  /// The kernel that lists kept rows moves them in calls that select and compact, which
  /// leave the compact kernel out.
  bool movesKept = false;

  void chooseVariant();
  void placeBuffers();
  /// Of a buffer, for at most these sizes.
  uint64_t bytesOf(size_t buffer, const kvc::rt::Symbols &limits) const;
  kvc::rt::Failure exceedsWorkspace(size_t buffer) const;
  /// Launches kernels of these phases, in order, all or none.
  void launch(const kvc_layer_args &args, const kvc::rt::ArgumentValues &values,
              kvc::rt::Phase first, kvc::rt::Phase last, void *stream) const;
  /// Queries that a call must bring of each sequence, as far as the host knows.
  uint32_t queriesOf(const kvc_layer_args &args) const;

  // PlanChecks.cpp
  /// Puts the rows of a cache in the place of a dense prompt's, and `cache` has the
  /// rest; it stays empty for a plan of a dense prompt.
  void openCache(kvc_layer_args &args, kvc_cache_view &cache) const;
  void checkCache(const kvc_layer_args &args,
                  const kvc::rt::CacheView &view) const;
  /// That a view is of the kind that the plan has it of, and of the call's size.
  void checkView(const kvc::rt::CacheView &view, kvc_cache_kind planned,
                 uint32_t batch) const;
  void check(const kvc_layer_args &args, kvc::rt::Phase first,
             kvc::rt::Phase last) const;
  /// What comes with merged rows.
  void checkMembers(const kvc_layer_args &args,
                    const kvc::rt::CacheView &view) const;
  void checkPacked(const kvc_layer_args &args) const;
  void checkProjection(const kvc_layer_args &args) const;
  /// Memory for what prepare kernels leave.
  void checkPrepared(const kvc_layer_args &args) const;
  void checkRows(const kvc_rows &rows, const char *name) const;
  /// One for each sequence, 0 to its T; null: none.
  void checkUpToLength(const kvc_layer_args &args, const int32_t *numbers,
                       const char *name) const;
  /// Lengths and budgets, where the host can read them.
  void checkSequences(const kvc_layer_args &args) const;
  /// Rows are gathered by what the caller says: on the host that is looked at.
  void checkIndices(const kvc_layer_args &args) const;
  /// That arrays of 32-bit numbers are aligned.
  void checkWords(const kvc_layer_args &args) const;
  void checkAligned(const void *base, const char *name) const;
  void checkStride(int64_t stride, const char *name) const;

  // IntoChecks.cpp
  /// The view that kept rows go into; it stays empty where they are packed.
  void openInto(const kvc_layer_args &args, const kvc_cache_view &cache,
                kvc_cache_view &into) const;

  kvc::rt::LseView lseOf(const kvc_layer_args &args) const;
  kvc::rt::Symbols symbols(uint32_t batch, uint32_t tokens, uint32_t queries,
                           uint32_t indexCapacity) const;
};

#endif // KVC_RUNTIME_PLAN_PLAN_H
