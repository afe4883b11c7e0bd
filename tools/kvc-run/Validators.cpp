//===- Validators.cpp - what the values of options must be ----------------===//

#include "tools/kvc-run/Commands.h"

#include "runtime/base/Failure.h"

#include <charconv>

CLI::Validator kvc::rt::wholeNumber(uint64_t least, uint64_t most) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        uint64_t value = 0;
        const char *end = text.data() + text.size();
        auto [rest, error] = std::from_chars(text.data(), end, value);
        if (error == std::errc() && rest == end && !text.empty() &&
            value >= least && value <= most)
          return "";
        return fmt::format("must be a whole number of {} to {}, got '{}'",
                           least, most, text);
      },
      "");
}

const CLI::Validator kvc::rt::notEmpty(
    [](std::string &text) -> std::string {
      return text.empty() ? "must not be empty" : "";
    },
    "");
