//===- Layers.cpp - the input of apply -----------------------------------===//

#include "test/fuzz/Target.h"

#include "executor/io/LayerFile.h"

using namespace kvc;

KVC_FUZZ_TARGET(layers) {
  rt::LayerFile file(fuzz::file(bytes, "layers.safetensors"));
  size_t tokens = size_t(file.kvHeads) * file.tokens * file.headDim;
  for (const rt::LayerTensors &layer : file.layers)
    if (layer.k->elements() != tokens || layer.v->elements() != tokens)
      fuzz::fault("k and v must have the file's shape");
}
