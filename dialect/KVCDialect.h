//===- KVCDialect.h - the dialect, its attributes and ops -----------------===//

#ifndef KVC_DIALECT_KVCDIALECT_H
#define KVC_DIALECT_KVCDIALECT_H

#include "dialect/KVCAxes.h"
#include "dialect/KVCNeeds.h"
#include "dialect/KVCPlan.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialect/KVCDialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/KVCTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/KVCAttrs.h.inc"
#include "dialect/KVCInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialect/KVCOps.h.inc"

namespace kvc {

/// The number that a value is, once parameters are bound: how many queries, how
/// wide a pool, how long a segment; 0 when it is not a constant.
int64_t constantOf(mlir::Value value);

/// The names of what rows carry; none where there is no list.
llvm::SmallVector<mlir::StringAttr> carriedNames(mlir::ArrayAttr names);

/// True for kinds that are made value by value in one walk. The others need
/// several walks over the same values: over tokens and channels only.
bool folds(ReduceKind kind);

/// What the pools behind a value of rank 3 look at for one of its points: pools of
/// pools multiplied, pools beside one another added; widths must be constant.
struct Pooled {
  /// How far to each side, in tokens.
  int64_t reach = 0;
  /// How many values, up to INT32_MAX.
  int64_t values = 1;
};
Pooled pooledBehind(mlir::Value value);

/// Numerator and denominator of a decimal text, reduced; nothing if the text
/// is no decimal of at most 4 places, is negative or not below 1024.
std::optional<std::pair<int64_t, int64_t>> parseFraction(llvm::StringRef text);

} // namespace kvc

#endif // KVC_DIALECT_KVCDIALECT_H
