//===- HeadTable.cpp - the importance of heads, a file of the user's ------===//

#include "executor/eviction/HeadTable.h"

#include "runtime/base/Failure.h"
#include "executor/io/Safetensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kvc::rt;

std::vector<float> kvc::rt::readTable(const Manifest &manifest,
                                      const std::string &path, uint32_t layers,
                                      uint32_t qHeads) {
  bool wanted = manifest.reads(Argument::table);
  if (!wanted && path.empty())
    return {};
  if (!wanted)
    throw fail(KVC_BAD_ARGUMENT, "policy '{}' takes no table, got '{}'",
               manifest.policy, path);
  if (path.empty())
    throw fail(KVC_BAD_ARGUMENT,
               "policy '{}' needs the importance of heads: --table FILE",
               manifest.policy);
  SafetensorsFile file(path);
  const TensorView &tensor = file.at("importance");
  if (tensor.dtype != "F32" ||
      tensor.shape != std::vector<uint64_t>{layers, qHeads})
    throw fail(KVC_BAD_ARGUMENT,
               "{}: tensor 'importance' must be F32 [{}, {}], got {}", path,
               layers, qHeads, tensor.describe());
  std::vector<float> values(tensor.elements());
  std::memcpy(values.data(), tensor.data, values.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]) || values[i] < 0)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: importance must be finite and 0 or more, got {} at layer "
                 "{}, head {}",
                 path, values[i], i / qHeads, i % qHeads);
  if (std::all_of(values.begin(), values.end(), [](float x) { return x == 0; }))
    throw fail(KVC_BAD_ARGUMENT,
               "{}: importance must be above 0 for some head, got 0 for all",
               path);
  return values;
}
