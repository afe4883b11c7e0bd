//===- LayerText.h - a layer written out as JSON --------------------------===//
//
// For looking at a policy by hand and for tests whose numbers a person has
// computed (docs/interpret.md has the format).
//
//===----------------------------------------------------------------------===//

#ifndef KVC_DIALECT_REFERENCE_LAYERTEXT_H
#define KVC_DIALECT_REFERENCE_LAYERTEXT_H

#include "dialect/KVCDialect.h"
#include "dialect/reference/Meaning.h"

#include "llvm/Support/Error.h"

namespace kvc::reference {

/// More than anybody writes by hand; the parser of JSON is recursive.
constexpr size_t mostLayerBytes = 1 << 20;
constexpr size_t mostLayerNesting = 100;

/// The layer of a text; the rule it breaks and what was found instead.
llvm::Expected<Layer> parseLayer(llvm::StringRef text);

/// What the policy reads but the layer does not have.
llvm::Error checkInputs(PolicyOp policy, const Layer &layer);

} // namespace kvc::reference

#endif // KVC_DIALECT_REFERENCE_LAYERTEXT_H
