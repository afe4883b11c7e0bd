//===- Between.h - a client and MLIR's language server ---------------------===//

#ifndef KVC_TOOLS_KVC_LSP_SERVER_BETWEEN_H
#define KVC_TOOLS_KVC_LSP_SERVER_BETWEEN_H

#include "llvm/ADT/STLFunctionalExtras.h"

namespace kvc {

/// Runs `server`, which speaks to standard input and output, and returns what it
/// returns. What a client asks goes to it as it is; to its answers about ops, asked for
/// by hovers, their documentation is added.
int runBetween(llvm::function_ref<int()> server);

} // namespace kvc

#endif // KVC_TOOLS_KVC_LSP_SERVER_BETWEEN_H
