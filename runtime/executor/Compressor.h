//===- Compressor.h - a policy inside a model's prefill -------------------===//

#ifndef KVC_RUNTIME_EXECUTOR_COMPRESSOR_H
#define KVC_RUNTIME_EXECUTOR_COMPRESSOR_H

#include "runtime/base/Budget.h"
#include "runtime/executor/Evictor.h"
#include "runtime/model/Transformer.h"

namespace kvc::rt {

struct PolicyOptions {
  std::string policy;       // library of kvc-opt
  std::string target;       // "", "host", "cuda"
  std::string table;        // importance of heads, for policies that read it
  bool sharesTable = false; // it may be for other policies only
};

/// Compresses one layer after the other, as their attention is done.
class Compressor {
public:
  /// Throws Failure, also where the policy is not compiled for the model.
  Compressor(const PolicyOptions &options, const Transformer &model);

  /// Before the layers of `tokens` tokens, of which each KV head keeps `budget`
  /// on average.
  void begin(uint32_t tokens, uint32_t budget);
  /// Appends what the policy keeps of a layer to `cache` and returns it. The
  /// tokens stand at `position` and after. Layers must come in order, from 0.
  KeptSequence compress(const LayerActivations &layer, uint32_t position,
                        RaggedCache &cache);

  const Manifest &manifest() const { return evictor.manifest(); }
  /// The type of the cache: fp32 if the policy is compiled for it, else the
  /// model's own.
  kvc_dtype dtype() const { return type; }
  const char *target() const { return targetName(where); }
  /// True where some score was NaN.
  bool nanScores() const { return nan; }

private:
  const Transformer &model;
  kvc_target where;
  Evictor evictor;
  kvc_dtype type;
  uint32_t budget = 0, layer = 0, planned = 0;
  bool nan = false;
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_EXECUTOR_COMPRESSOR_H
