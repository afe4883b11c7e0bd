//===- TextPattern.h - a regular expression that cuts a text --------------===//

#ifndef KVC_EXECUTOR_MODEL_TEXTPATTERN_H
#define KVC_EXECUTOR_MODEL_TEXTPATTERN_H

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvc::rt {

class TextPattern {
public:
  /// Throws Failure, with the words `what`, for what is no regular expression.
  TextPattern(const std::string &text, const std::string &what);

  /// Matches, and what lies between them, in order.
  std::vector<std::string> cut(std::string_view text) const;

private:
  std::shared_ptr<void> code;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_MODEL_TEXTPATTERN_H
