//===- Failure.h - errors inside the runtime ------------------------------===//
//
// Thrown inside, caught at the C ABI and in the commands. One line: the rule,
// then the value found.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_BASE_FAILURE_H
#define KVC_RUNTIME_BASE_FAILURE_H

#include "kvc/kvc.h"

#include <fmt/format.h>
#include <stdexcept>

namespace kvc::rt {

class Failure : public std::runtime_error {
public:
  Failure(kvc_status status, const std::string &message)
      : std::runtime_error(message), status(status) {}
  const kvc_status status;
};

/// throw fail(KVC_BAD_ARGUMENT, "budget must be at least 1, got {}", budget);
template <typename... Args>
Failure fail(kvc_status status, fmt::format_string<Args...> text,
             Args &&...args) {
  return Failure(status, fmt::format(text, std::forward<Args>(args)...));
}

} // namespace kvc::rt

#endif // KVC_RUNTIME_BASE_FAILURE_H
