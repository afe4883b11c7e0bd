//===- EmitObject.h - the artefact as an object file ----------------------===//

#ifndef KVC_CODEGEN_EMIT_EMITOBJECT_H
#define KVC_CODEGEN_EMIT_EMITOBJECT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace kvc {

struct ObjectOptions {
  /// Machine of the host kernels; empty: this one.
  std::string hostTriple;
  /// Their processor; "generic" runs everywhere. Behind it, with commas, those for which
  /// warps are compiled once more.
  std::string hostCPU = "generic";
  /// Also build the form of the host kernels that a warp runs, several times as fast as
  /// a fiber for each thread; without it compiling takes half of the time.
  bool warps = false;
  /// Chips whose PTX is put in.
  std::vector<std::string> chips;
  /// Also export the artefact as kvc_artifact, for dlopen.
  bool library = false;
  /// Optimise the host kernels little: for tests that run each once.
  bool quick = false;
};

/// Level gpu to LLVM IR text of the host kernels.
llvm::Expected<std::string> emitHostIR(mlir::ModuleOp module,
                                       const ObjectOptions &options);

/// Level gpu to an ELF object that holds the constant kvc_policy_<name>
/// (kvc/artifact.h): manifest, PTX of each chip, host kernels.
llvm::Expected<std::string> emitObject(mlir::ModuleOp module,
                                       const ObjectOptions &options);

/// The C header that declares the constant.
std::string emitHeader(mlir::ModuleOp module);

/// The manifest's text.
std::string manifestOf(mlir::ModuleOp module);

/// `library` with the seal of kvc/artifact.h behind it.
std::string sealLibrary(std::string library);

/// The shared library of `object`, made by ld.lld and sealed.
llvm::Expected<std::string> linkLibrary(llvm::StringRef object);

} // namespace kvc

#endif // KVC_CODEGEN_EMIT_EMITOBJECT_H
