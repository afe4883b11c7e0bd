//===- Messages.h - messages of the language server protocol --------------===//

#ifndef KVC_TOOLS_KVC_LSP_SERVER_MESSAGES_H
#define KVC_TOOLS_KVC_LSP_SERVER_MESSAGES_H

#include "llvm/ADT/StringRef.h"

#include <cstdio>
#include <optional>
#include <string>

namespace kvc {

/// The next message of a stream, without its header. None where the stream ends, or has
/// what is no message.
std::optional<std::string> readMessage(std::FILE *from);

/// False where nobody reads any more.
bool writeMessage(std::FILE *to, llvm::StringRef message);

} // namespace kvc

#endif // KVC_TOOLS_KVC_LSP_SERVER_MESSAGES_H
