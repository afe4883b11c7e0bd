//===- OpDocs.h - what the reference page says about an op ----------------===//

#ifndef KVC_TOOLS_KVC_LSP_SERVER_OPDOCS_H
#define KVC_TOOLS_KVC_LSP_SERVER_OPDOCS_H

#include "llvm/ADT/StringRef.h"

namespace kvc {

/// The part of docs/dialect.md about an op of this dialect, Markdown without its
/// heading; empty for others.
llvm::StringRef documentationOf(llvm::StringRef op);

} // namespace kvc

#endif // KVC_TOOLS_KVC_LSP_SERVER_OPDOCS_H
