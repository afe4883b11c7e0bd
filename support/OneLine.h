//===- OneLine.h - a text as part of one line -----------------------------===//

#ifndef KVC_SUPPORT_ONELINE_H
#define KVC_SUPPORT_ONELINE_H

#include <string>
#include <string_view>

namespace kvc {

/// Whatever a name in a message holds: line breaks as \n, and ? for what would move
/// the cursor.
std::string oneLine(std::string_view text);

} // namespace kvc

#endif // KVC_SUPPORT_ONELINE_H
