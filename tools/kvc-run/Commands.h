//===- Commands.h - the subcommands of kvc-run ----------------------------===//

#ifndef KVC_TOOLS_KVC_RUN_COMMANDS_H
#define KVC_TOOLS_KVC_RUN_COMMANDS_H

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace kvc::rt {

/// Each declares its options and, when its command is given, sets `run`.
void addApply(CLI::App &app, std::function<int()> &run);
void addGenerate(CLI::App &app, std::function<int()> &run);
void addEval(CLI::App &app, std::function<int()> &run);
void addProfile(CLI::App &app, std::function<int()> &run);
void addProfileAttention(CLI::App &app, std::function<int()> &run);
void addMeasure(CLI::App &app, std::function<int()> &run);
void addMeasureCard(CLI::App &app, std::function<int()> &run);
void addMeasureAttention(CLI::App &app, std::function<int()> &run);
void addReport(CLI::App &app, std::function<int()> &run);

/// A whole number, digits only: the library takes more for one than that.
CLI::Validator wholeNumber(uint64_t least, uint64_t most);
/// An option that is given says something.
extern const CLI::Validator notEmpty;
/// --budget or --keep, one of which must be given with a policy.
struct BudgetOptions {
  CLI::Option *budget, *keep;
  bool given() const { return *budget || *keep; }
};
BudgetOptions addBudget(CLI::App &command, std::string &budget,
                        std::string &keep, const std::string &keepText);
/// The entries of "a,b,c" given once or more, each of which must pass `check`.
/// The library's own lists skip what is empty between two commas.
std::vector<std::string> splitList(const std::string &option,
                                   const std::vector<std::string> &given,
                                   CLI::Validator check);

} // namespace kvc::rt

#endif // KVC_TOOLS_KVC_RUN_COMMANDS_H
