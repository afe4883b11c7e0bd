//===- Layers.cpp - the input of apply -----------------------------------===//

#include "test/fuzz/Target.h"

#include "executor/io/LayerFile.h"

using namespace kvc;

KVC_FUZZ_TARGET(layers) {
  rt::LayerFile file(fuzz::file(bytes, "layers.safetensors"));
  size_t perToken = size_t(file.kvHeads) * file.tokens;
  for (const rt::LayerTensors &layer : file.layers) {
    size_t rows = file.ofRows ? layer.rows : perToken;
    size_t elements = rows * file.headDim;
    if (layer.k->elements() != elements || layer.v->elements() != elements)
      fuzz::fault("k and v must have the file's shape");
    for (const auto &[name, numbers] : layer.states)
      if (numbers->elements() != rows)
        fuzz::fault("a row must carry one number of a name");
  }
}
