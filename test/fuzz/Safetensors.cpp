//===- Safetensors.cpp - a file of tensors -------------------------------===//

#include "test/fuzz/Target.h"

#include "executor/io/Safetensors.h"

using namespace kvc;

KVC_FUZZ_TARGET(safetensors) {
  rt::SafetensorsFile file(fuzz::file(bytes, "file.safetensors"));
  size_t sum = 0;
  for (const auto &[name, tensor] : file.tensors) {
    if (tensor.elements() * rt::safetensorsBytes(tensor.dtype) != tensor.bytes)
      fuzz::fault("bytes of a tensor must be those of its shape");
    for (size_t i = 0; i < tensor.bytes; ++i)
      sum += size_t(tensor.data[i]);
  }
  volatile size_t used = sum;
  (void)used;
}
