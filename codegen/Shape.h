//===- Shape.h - what is compiled in: head size, group, type, caches ------===//

#ifndef KVC_CODEGEN_SHAPE_H
#define KVC_CODEGEN_SHAPE_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/Error.h"

#include <string>

namespace kvc {

enum class DType { F32, F16, BF16 };

/// How the cache that a policy reads holds its rows (kvc/cache.h).
enum class CacheKind {
  /// Every token, in every head: row t is token t.
  Dense,
  /// Each head has rows of its own, behind each other from its first slot on.
  Ragged,
  /// The same, in pages that a table names.
  Paged,
  /// As ragged, of merged rows: each represents members that a table lists, and holds
  /// a key before RoPE.
  Merged,
  /// The same, in pages.
  MergedPaged,
  /// Inside a merged variant: kernels over the members in the place of rows.
  Members,
};

/// Where the rows that a policy keeps are written (kvc_layer_args).
enum class Into {
  /// Head after head, in memory of their own: k_out and v_out.
  Packed,
  /// In the slots of a view that the call brings; it may be the cache itself.
  Ragged,
  /// The same, in pages that a table names.
  Paged,
};

/// The static part of a problem. Strides, heads and lengths are run-time
/// arguments.
struct Shape {
  int64_t headDim = 128;
  int64_t group = 1;
  DType dtype = DType::F32;
  CacheKind cache = CacheKind::Dense;
  Into into = Into::Packed;

  /// Parses "head_dim=64,group=4,dtype=f32,cache=ragged,into=packed". head_dim is 1
  /// to 256, group 1 to 16; both must be given.
  static llvm::Expected<Shape> parse(llvm::StringRef text);
  /// Reads the shape from DIR/config.json of a Hugging Face model.
  static llvm::Expected<Shape> fromModel(llvm::StringRef dir);

  /// What parse() reads.
  std::string text() const;
  /// "d128_g4_bf16", "d128_g4_bf16_paged_into_paged": suffix of kernel names, key of
  /// the manifest's variants.
  std::string suffix() const;
  llvm::StringRef cacheName() const;
  llvm::StringRef intoName() const;
  /// True where a row may be any token's: counts, positions and places of rows are
  /// arguments.
  bool hasRows() const { return cache != CacheKind::Dense; }
  bool isPaged() const {
    return cache == CacheKind::Paged || cache == CacheKind::MergedPaged;
  }
  bool isMerged() const {
    return cache == CacheKind::Merged || cache == CacheKind::MergedPaged;
  }
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
