//===- Validators.cpp - what the values of options must be ----------------===//

#include "tools/kvc-run/Commands.h"

#include "runtime/base/Failure.h"

#include <algorithm>
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
        return kvc::rt::formatted(
            "must be a whole number of {} to {}, got '{}'", least, most, text);
      },
      "");
}

const CLI::Validator kvc::rt::notEmpty(
    [](std::string &text) -> std::string {
      return text.empty() ? "must not be empty" : "";
    },
    "");

kvc::rt::BudgetOptions kvc::rt::addBudget(CLI::App &command,
                                          std::string &budget,
                                          std::string &keep,
                                          const std::string &keepText) {
  BudgetOptions options = {
      command.add_option("--budget", budget,
                         "Tokens per KV head, window included"),
      command.add_option("--keep", keep, keepText)};
  options.budget->check(notEmpty)->excludes(options.keep);
  options.keep->check(notEmpty);
  return options;
}

std::vector<std::string>
kvc::rt::splitList(const std::string &option,
                   const std::vector<std::string> &given,
                   CLI::Validator check) {
  std::vector<std::string> entries;
  for (const std::string &list : given)
    for (size_t from = 0, end = 0; from <= list.size(); from = end + 1) {
      end = std::min(list.find(',', from), list.size());
      std::string entry = list.substr(from, end - from);
      if (std::string wrong = check(entry); !wrong.empty())
        throw CLI::ValidationError(option, wrong);
      entries.push_back(std::move(entry));
    }
  return entries;
}
