//===- LayerFile.h - the input of `apply`: layers of one sequence ---------===//

#ifndef KVC_EXECUTOR_IO_LAYERFILE_H
#define KVC_EXECUTOR_IO_LAYERFILE_H

#include "kvc/kvc.h"
#include "executor/io/Safetensors.h"

#include <cstddef>
#include <list>
#include <map>
#include <optional>

namespace kvc::rt {

struct LayerTensors {
  const TensorView *k, *v;          // [Hkv, T, d]
  const TensorView *kRaw = nullptr; // [Hkv, T, d]
  const TensorView *q = nullptr;    // [Hq, Tq, d]
  const TensorView *lse = nullptr;  // [Hq, Tq]
  const TensorView *wo = nullptr;   // [D, Hq * d]
  // Of a cache of rows; then k, v and kRaw are [rows, d], head after head.
  const int32_t *lengths = nullptr;   // [Hkv]
  const int32_t *positions = nullptr; // [rows]
  uint64_t rows = 0;                  // of all heads
  /// What rows carry, by name: F32 [rows], of a prompt [Hkv, T].
  std::map<std::string, const TensorView *> states;
  // Of a merged cache: what its rows represent, head after head.
  const int32_t *memberCounts = nullptr; // [Hkv]
  const int32_t *memberRows = nullptr, *memberPositions = nullptr;
  const float *memberNorms = nullptr;
  uint64_t members = 0; // of all heads
};

/// A prompt, or a cache of rows: `lengths` and `positions` in every layer; or a merged
/// cache, with `members.counts` and its like in every layer, too. Shapes are
/// checked against each other when the file is opened; no tensor holds NaN.
class LayerFile {
public:
  /// Throws Failure that names file, tensor, rule and value.
  explicit LayerFile(const std::string &path);

  std::vector<LayerTensors> layers;
  bool ofRows = false, merged = false;
  uint32_t kvHeads = 0, headDim = 0, tokens = 0;
  uint32_t qHeads = 0, queries = 0; // 0 without queries
  uint32_t hidden = 0;              // D, 0 without output projections
  kvc_dtype dtype = KVC_F32;
  float scale = 0;                    // 0: the default
  std::optional<uint32_t> newQueries; // metadata 'new'
  uint32_t since = 0;                 // metadata 'since'
  std::optional<double> ropeTheta;
  const std::string &path() const { return file.path; }
  /// K and V of all layers.
  size_t cacheBytes() const;

private:
  void readLayer(size_t index);
  /// Counts and positions of a layer's rows; `length` is T if the file says so.
  void readRows(size_t index, LayerTensors &layer,
                std::optional<uint32_t> length);
  /// A whole number of the metadata.
  std::optional<uint32_t> readWhole(const char *name, uint32_t least) const;
  const TensorView &integers(size_t layer, const char *name);
  /// The numbers of a tensor, which begins at any byte of the file: a copy of them
  /// where they do not lie as their type must.
  template <typename T> const T *numbers(const TensorView &tensor);
  std::list<std::vector<std::byte>> copies;
  /// What the rows of a merged cache represent.
  void readMembers(size_t index);
  void readStates(size_t index);
  void readMetadata();
  std::optional<double> readNumber(const char *name) const;
  /// Of the model's types, without NaN, and with so many rows at least.
  const TensorView &tensor(size_t layer, const char *name, size_t rank,
                           uint64_t leastRows = 1);

  SafetensorsFile file;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_IO_LAYERFILE_H
