//===- Json.h - JSON of files that nobody vouches for ---------------------===//

#ifndef KVC_EXECUTOR_IO_JSON_H
#define KVC_EXECUTOR_IO_JSON_H

#include "runtime/base/Failure.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace kvc::rt {

/// The value of `text`; discarded (no value of any type) where it is not JSON,
/// or nested deeper than any file of ours: copies, comparisons and texts of
/// values are made recursively.
nlohmann::json parseJson(std::string_view text);

/// The beginning of a value's text, for messages.
std::string quote(const nlohmann::json &value);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_IO_JSON_H
