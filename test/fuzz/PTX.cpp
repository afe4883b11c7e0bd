//===- PTX.cpp - PTX text, as the machine reads it ------------------------===//

#include "test/fuzz/Target.h"

#include "ptx/Parser.h"

KVC_FUZZ_TARGET(ptx) { kvc::ptx::parse(bytes); }
