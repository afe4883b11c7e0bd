//===- Shape.h - what is compiled in: head size, group, element type ------===//

#ifndef KVC_CODEGEN_SHAPE_H
#define KVC_CODEGEN_SHAPE_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/Error.h"

#include <string>

namespace kvc {

enum class DType { F32, F16, BF16 };

/// The static part of a problem. Strides, heads and lengths are run-time
/// arguments.
struct Shape {
  int64_t headDim = 128;
  int64_t group = 1;
  DType dtype = DType::F32;

  /// Parses "head_dim=64,group=4,dtype=f32". head_dim is 1 to 256, group 1 to
  /// 16; both must be given.
  static llvm::Expected<Shape> parse(llvm::StringRef text);
  /// Reads the shape from DIR/config.json of a Hugging Face model.
  static llvm::Expected<Shape> fromModel(llvm::StringRef dir);

  /// "d128_g4_bf16": suffix of kernel names, key of the manifest's variants.
  std::string suffix() const;
  llvm::StringRef dtypeName() const;
  int64_t bytesPerElement() const { return dtype == DType::F32 ? 4 : 2; }
  mlir::Type elementType(mlir::MLIRContext *context) const;
  /// Elements that one vector access may move: a power of two that divides
  /// head_dim, 16 bytes at most.
  int64_t vectorWidth() const;
  /// True if scores come from tensor-core instructions.
  bool usesTensorCores() const {
    return dtype != DType::F32 && headDim % 16 == 0;
  }
  bool operator==(const Shape &) const = default;
};

} // namespace kvc

#endif // KVC_CODEGEN_SHAPE_H
