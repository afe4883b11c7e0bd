//===- KernelArgs.cpp - the vocabulary of kernel arguments ----------------===//

#include "codegen/KernelArgs.h"

using namespace kvc;

static const ArgSpec table[] = {
#define KVC_ARGUMENT(name, kind, access, value, meaning)                       \
  {#name, ArgKind::kind, ArgAccess::access},
#include "kvc/arguments.def"
#undef KVC_ARGUMENT
};

const ArgSpec *kvc::findArg(llvm::StringRef name) {
  for (const ArgSpec &spec : table)
    if (spec.name == name)
      return &spec;
  return nullptr;
}
