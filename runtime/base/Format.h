//===- Format.h - text with values in it ----------------------------------===//
//
// fmt::format, but what it makes of a text is compiled once, here, and not in
// every file that writes a message: that took a third of the time of a build.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_BASE_FORMAT_H
#define KVC_RUNTIME_BASE_FORMAT_H

#include <fmt/format.h>

#include <string>

namespace kvc::rt {

std::string formattedArgs(fmt::string_view text, fmt::format_args args);

/// formatted("{} of {}", 3, 4)
template <typename... Args>
std::string formatted(fmt::format_string<Args...> text, Args &&...args) {
  return formattedArgs(text, fmt::make_format_args(args...));
}

} // namespace kvc::rt

#endif // KVC_RUNTIME_BASE_FORMAT_H
