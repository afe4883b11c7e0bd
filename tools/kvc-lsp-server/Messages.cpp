//===- Messages.cpp - messages of the language server protocol ------------===//
//
// A message is a header of lines that end in CR LF, an empty one last, and as many bytes
// as the header's Content-Length says.
//
//===----------------------------------------------------------------------===//

#include "tools/kvc-lsp-server/Messages.h"

using namespace llvm;

/// A client that asks for more is broken, or none.
static constexpr size_t mostBytes = size_t(1) << 28;
static constexpr size_t mostHeader = 1 << 12;

static std::optional<std::string> readLine(std::FILE *from) {
  std::string line;
  for (int c; (c = std::getc(from)) != EOF && line.size() < mostHeader;) {
    if (c == '\n')
      return line;
    line += char(c);
  }
  return std::nullopt;
}

std::optional<std::string> kvc::readMessage(std::FILE *from) {
  size_t bytes = 0;
  for (bool any = false;; any = true) {
    std::optional<std::string> line = readLine(from);
    if (!line)
      return std::nullopt;
    StringRef text = StringRef(*line).rtrim('\r');
    if (text.empty() && any)
      break;
    if (text.consume_front_insensitive("Content-Length:") &&
        (text.trim().getAsInteger(10, bytes) || bytes > mostBytes))
      return std::nullopt;
  }
  std::string message(bytes, '\0');
  if (std::fread(message.data(), 1, bytes, from) != bytes)
    return std::nullopt;
  return message;
}

bool kvc::writeMessage(std::FILE *to, StringRef message) {
  std::fprintf(to, "Content-Length: %zu\r\n\r\n", message.size());
  std::fwrite(message.data(), 1, message.size(), to);
  return std::fflush(to) == 0;
}
