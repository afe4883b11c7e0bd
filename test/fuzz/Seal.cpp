//===- Seal.cpp - whether a file is a whole library ----------------------===//

#include "test/fuzz/Target.h"

#include "runtime/plan/Seal.h"

using namespace kvc;

KVC_FUZZ_TARGET(seal) { rt::checkSeal(fuzz::file(bytes, "library.so")); }
