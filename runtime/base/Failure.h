//===- Failure.h - errors inside the runtime ------------------------------===//
//
// Thrown inside, caught at the C ABI and in the commands. One line: the rule,
// then the value found. Names and values come from files and may hold anything:
// what would break or bloat the line is replaced.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_BASE_FAILURE_H
#define KVC_RUNTIME_BASE_FAILURE_H

#include "kvc/kvc.h"
#include "runtime/base/Format.h"

#include <stdexcept>
#include <string>
#include <string_view>

namespace kvc::rt {

class Failure : public std::runtime_error {
public:
  Failure(kvc_status status, const std::string &message);
  const kvc_status status;
};

/// `text` without what ends a line or moves a terminal's cursor ("\n", "\x1b"
/// instead), and with its middle left out where it is very long.
std::string oneLine(std::string_view text);

/// The first 80 bytes, or a little less so that no character is cut.
std::string excerpt(std::string_view text);

/// A number that is found where numbers must ascend: "5 behind 7", or "-1 first" where there
/// is none in front of it (`before` is below 0).
std::string inOrder(int64_t number, int64_t before);

/// throw fail(KVC_BAD_ARGUMENT, "budget must be at least 1, got {}", budget);
template <typename... Args>
Failure fail(kvc_status status, fmt::format_string<Args...> text,
             Args &&...args) {
  return Failure(status, formattedArgs(text, fmt::make_format_args(args...)));
}

} // namespace kvc::rt

#endif // KVC_RUNTIME_BASE_FAILURE_H
