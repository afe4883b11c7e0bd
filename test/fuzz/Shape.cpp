//===- Shape.cpp - --shape and --model of kvc-opt ------------------------===//

#include "test/fuzz/Target.h"

#include "codegen/Shape.h"

using namespace kvc;

static void expectWord(llvm::Expected<Shape> shape) {
  if (!shape && llvm::toString(shape.takeError()).empty())
    fuzz::fault("what is refused must be refused with a word");
}

KVC_FUZZ_TARGET(shape) {
  expectWord(Shape::parse(llvm::StringRef(bytes.data(), bytes.size())));
}

KVC_FUZZ_TARGET(shape_of_model) {
  fuzz::file(bytes, "config.json");
  expectWord(Shape::fromModel(fuzz::folder()));
}
