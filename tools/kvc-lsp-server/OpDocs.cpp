//===- OpDocs.cpp - what the reference page says about an op --------------===//

#include "tools/kvc-lsp-server/OpDocs.h"

#include <string>

using namespace llvm;

/// docs/dialect.md, as the build makes it.
static constexpr char page[] =
#include "Page.inc"
    ;

StringRef kvc::documentationOf(StringRef op) {
  StringRef text(page, sizeof page - 1);
  size_t heading = text.find("\n### `" + op.str() + "` (");
  if (op.empty() || heading == StringRef::npos)
    return "";
  StringRef rest = text.drop_front(heading + 1).split('\n').second;
  // Up to the next op, or the part behind the ops.
  return rest.take_front(std::min(rest.find("\n### "), rest.find("\n## ")))
      .trim();
}
