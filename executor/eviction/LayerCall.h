//===- LayerCall.h - one layer's way through a plan -----------------------===//

#ifndef KVC_EXECUTOR_EVICTION_LAYERCALL_H
#define KVC_EXECUTOR_EVICTION_LAYERCALL_H

#include "executor/eviction/Arena.h"
#include "executor/eviction/KeptLayer.h"
#include "executor/eviction/LaidRows.h"
#include "kvc/cache.h"
#include "runtime/plan/Plan.h"

namespace kvc::rt {

/// A layer of a batch, from the host to the plan's device and back: fills
/// kvc_layer_args, enqueues score and select, then a compaction into a cache
/// that is just as large as what was kept.
class LayerCall {
public:
  /// `pageRows`: slots of a page, for a plan of a paged cache; of others it says
  /// nothing.
  LayerCall(const kvc_plan &plan, const std::vector<LayerSequence> &batch,
            float scale, uint32_t layer, uint32_t layers, uint32_t pageRows);

  /// KVC_READS_* and KVC_MERGES: what the policy reads beside the sequences.
  uint32_t inputs() const { return info.inputs; }
  /// Of the longest sequence.
  uint32_t mostTokens() const { return tokens; }

  /// What is neither of a sequence nor of the layer, where the policy reads it:
  /// the importance of heads [layers, Hq], and state in device memory, [batch,
  /// tokens].
  void setTable(const std::vector<float> &table);
  void setState(int32_t *memory);
  /// Cosines and sines, [positions, d / 2, 2]; outlive the call.
  void setAngles(const std::vector<float> &angles);
  /// Memory that kvc_plan::prepare has filled for this layer's projection, or that it fills
  /// now; for one sequence.
  void setPrepared(void *memory, bool filled);
  /// What rows carry is computed for all of them, and read back.
  void carryStates() { carries = info.row_states != 0; }
  /// All in one launch sequence, as an engine does it that has room for whatever is kept,
  /// and not with the compaction behind what the host has read of the selection.
  void runAtOnce() { atOnce = true; }
  /// Kept rows stay in the slots or pages of the cache, from the first one on or up to
  /// the last one; for a plan whose `into` is its `cache`, of rows.
  void moveInPlace(bool toTail);

  /// Throws Failure.
  KeptLayer run(bool scores);

private:
  const kvc_plan &plan;
  const kvc_plan_info info;
  const std::vector<LayerSequence> &batch;
  Arena arena;
  kvc_layer_args args = {};
  kvc_cache_view cache = {};     // of a plan whose caches have rows
  kvc_cache_view into = {};      // where these stay in place
  kvc_member_table members = {}; // of merged rows
  std::optional<LaidRows> laid;
  const size_t heads;    // Hkv
  uint32_t tokens = 0;   // of the longest sequence
  const size_t rowBytes; // of a token and head
  size_t outRows = 1;    // of a sequence in k_out and v_out
  /// Which these are where the host has one sequence: the result itself.
  Bytes keptKeys, keptValues;
  bool carries = false, atOnce = false;

  /// Rows of all sequences in one piece of memory: [batch][head][rows].
  struct Packed {
    std::byte *memory;
    size_t headRows; // from one head to the next
  };
  /// Where rows lie in a sequence's memory, and how many a head has.
  struct Source {
    const std::byte *(*pointer)(const LayerSequence &);
    size_t (*rows)(const LayerSequence &);
    bool last; // of more rows than wanted the last, else the first
  };
  bool liesWell(const std::byte *memory) const;
  Packed pack(const Source &source, size_t packedHeads, size_t rows,
              size_t bytes);
  kvc_rows rowsOf(const Packed &packed, size_t packedHeads) const;

  void setSequences();
  void setCache();
  void setRows(uint32_t pageRows);
  bool hasRows() const { return plan.options.cache != KVC_DENSE; }
  /// How many rows a head has.
  size_t rowsOf(size_t sequence, size_t head) const;
  /// How many of the last queries the policy reads, of every sequence.
  uint32_t queriesRead();
  void setQueries();
  void setRowStates();
  void setMembers();
  void setSince();
  void setIntoStates();
  void setProjection();
  void setOutputs();
  /// Where kept rows go, for so many rows of each head of each sequence.
  void makeCache(const std::vector<int32_t> &counts);
  /// One sequence, and kernels read and write the host's memory.
  bool onePlace() const { return batch.size() == 1 && arena.device.onHost(); }
  KeptSequence read(size_t sequence, bool scores);
  void readPacked(size_t sequence, size_t rows, KeptSequence &kept);
  void readPlaced(size_t sequence, KeptSequence &kept) const;
  MemberTable readMembers(size_t sequence) const;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_LAYERCALL_H
