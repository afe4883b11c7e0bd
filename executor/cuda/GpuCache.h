//===- GpuCache.h - keys and values of one sequence, on a GPU -------------===//
//
// Each layer as RaggedCache has it: head after head, kept rows and free ones
// behind them. What a policy has kept differs by head; what is appended then is
// as much for every head, so that appending tells the GPU one number.
//
// To a merged layer tokens are appended as rows of one member each.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_GPUCACHE_H
#define KVC_EXECUTOR_CUDA_GPUCACHE_H

#include "executor/cuda/GpuMembers.h"

namespace kvc::gpu {

/// What a policy has kept of a layer.
struct KeptRows {
  const void *k, *v;               // rows, head after head
  const int32_t *offsets, *counts; // device [Hkv]
  std::vector<int32_t> hostCounts;
  // Of head h the rows' positions are `addPosition` more than positions[p], p from
  // positionsAt; positions null: nobody knows them.
  const int32_t *positions;
  PlacesArgs positionsAt;
  int32_t addPosition;
  // What rows carry, [stateNames][statesRows], beside the rows of k.
  const float *states;
  size_t statesRows;
  std::vector<std::string> stateNames;
  KeptMembers members;
};

class GpuCache : public rt::Cache {
public:
  GpuCache(Queue &queue, const rt::Config &config);

  std::unique_ptr<Cache> copy() const override;
  void append(uint32_t layer, const rt::Activations &activations,
              uint32_t position) override;
  rt::RaggedCache::Contents contents(uint32_t layer) const override;
  void restore(uint32_t layer,
               const rt::RaggedCache::Contents &contents) override;
  uint32_t rows(uint32_t layer, uint32_t head) const override;
  size_t usedBytes() const override;

  /// Appends to a layer; the members' positions are behind `position`.
  void append(uint32_t layer, const KeptRows &kept, uint32_t position);
  /// A layer as a policy over caches reads it, with T at `length` on the device; its
  /// rows become one list. A merged one leads to `members`. Throws Failure where nobody
  /// knows the rows' positions.
  kvc_cache_view view(uint32_t layer, int32_t *length,
                      kvc_member_table &members);
  /// What the rows of a layer carry by these names, laid out as the view's rows: 0 for
  /// those that it has not; other names go.
  kvc_row_states states(uint32_t layer, const std::vector<std::string> &names);
  /// A layer now holds what was kept of it.
  void replace(uint32_t layer, const KeptRows &kept);
  bool merged(uint32_t layer) const { return bool(layers[layer].members); }
  /// Rows of all heads of a layer.
  size_t allRows(uint32_t layer) const;
  /// Gives every layer room for `tokens` more.
  void reserve(uint32_t tokens);
  /// Takes keys and values out of a layer that no policy has touched.
  void take(uint32_t layer, GpuActivations &to);

  /// For the attention; `rope` is the table of all positions so far.
  CacheArgs args(uint32_t layer, const float *rope) const;
  /// Rows that the layer has memory for.
  uint32_t places(uint32_t layer) const {
    return uint32_t(places(layers[layer]));
  }
  /// The most keys that a head of the layer attends to.
  uint32_t longest(uint32_t layer) const;

private:
  struct Layer {
    Buffer k, v, positions; // of each row the place in `positions` is its own
    bool unplaced = false;  // what `positions` has of some rows means nothing
    // What rows carry, [stateNames][rows of k], each at its row's place; 0 at free ones.
    Buffer states;
    std::vector<std::string> stateNames;
    Buffer offsets, counts; // [Hkv]
    std::vector<int32_t> hostOffsets, hostCounts;
    uint32_t extra = 0; // rows behind the counted ones
    uint32_t room = 0;  // for so many
    GpuMembers members;
  };

  Queue &queue;
  const rt::Config &config;
  const size_t rowBytes;
  std::vector<Layer> layers;

  void empty(Layer &layer) const;
  /// As many rows as `k` has places for.
  size_t places(const Layer &layer) const { return layer.k.bytes() / rowBytes; }
  /// Moves numbers as `move` moves positions.
  void moveNumbers(MoveRowsArgs args, const float *from, float *to,
                   uint32_t longest);
  /// Launches move_rows; no head has more than `longest` rows to move.
  void move(const MoveRowsArgs &args, uint32_t longest);
  uint32_t rowWords() const { return uint32_t(rowBytes / 4); }
  /// Lays a layer out anew: counts plus `more` rows, the extra ones among them,
  /// and room for `room`. `more` may be empty.
  void layOut(Layer &layer, const std::vector<int32_t> &more, uint32_t room);
  /// Appends tokens to a merged layer, which has room.
  void join(Layer &layer, const GpuActivations &from, uint32_t position);
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_GPUCACHE_H
