//===- Commands.h - the subcommands of kvc-run ----------------------------===//

#ifndef KVC_TOOLS_KVCRUN_COMMANDS_H
#define KVC_TOOLS_KVCRUN_COMMANDS_H

#include <functional>

namespace CLI {
class App;
}

namespace kvc::rt {

/// Each declares its options and, when its command is given, sets `run`.
void addApply(CLI::App &app, std::function<int()> &run);
void addGenerate(CLI::App &app, std::function<int()> &run);
void addEval(CLI::App &app, std::function<int()> &run);
void addReport(CLI::App &app, std::function<int()> &run);

} // namespace kvc::rt

#endif // KVC_TOOLS_KVCRUN_COMMANDS_H
