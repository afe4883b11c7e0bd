//===- kvc-run.cpp - policies on tensors and in models --------------------===//

#include "tools/kvc-run/Commands.h"

#include "runtime/base/Failure.h"
#include "executor/model/Blas.h"
#include "support/OneLine.h"
#include "support/OutputFiles.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

static int sayError(const std::string &message, int status) {
  std::cerr << "error: " << kvc::oneLine(message) << "\n";
  return status;
}

/// True for an empty argument that is no option's value. CLI11 would look at it for
/// ever where a command has a group of options.
static bool isStray(const CLI::App &command, const char *before,
                    const char *argument) {
  if (*argument)
    return false;
  const CLI::Option *option = command.get_option_no_throw(before);
  return !option || option->get_items_expected_max() == 0;
}

static int runCommand(int argc, char **argv) {
  CLI::App app("kvc-run: run compiled eviction policies");
  app.set_version_flag("--version", "kvc " KVC_VERSION);
  app.require_subcommand(1);
  std::function<int()> run;
  kvc::rt::addApply(app, run);
  kvc::rt::addGenerate(app, run);
  kvc::rt::addEval(app, run);
  kvc::rt::addProfile(app, run);
  kvc::rt::addProfileAttention(app, run);
  kvc::rt::addMeasure(app, run);
  kvc::rt::addMeasureAttention(app, run);
  kvc::rt::addMeasureCard(app, run);
  kvc::rt::addReport(app, run);
  std::vector<CLI::App *> commands =
      app.get_subcommands([](CLI::App *) { return true; });
  std::string first = argc > 1 ? argv[1] : "";
  auto named = std::ranges::find_if(commands, [&](const CLI::App *command) {
    return command->check_name(first);
  });
  if (named != commands.end()) {
    for (int i = 2; i < argc; ++i)
      if (isStray(**named, argv[i - 1], argv[i]))
        return sayError("The following argument was not expected: ''", 2);
  } else if (!first.empty() && first[0] != '-') {
    std::string names;
    for (const CLI::App *command : commands)
      names += (names.empty() ? "" : ", ") + command->get_name();
    return sayError(
        "the command must be one of " + names + ", got '" + first + "'", 2);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    // Help is no error; everything else is a usage error.
    if (error.get_exit_code() == 0)
      return app.exit(error);
    return sayError(error.what(), 2);
  }
  return run();
}

static int guardedMain(int argc, char **argv) {
  kvc::rt::useProcessorInBlas(argv);
  kvc::reserveStandardDescriptors();
  kvc::ignoreFileSizeSignal();
  kvc::rt::restBlasThreads();
  try {
    std::cout.exceptions(std::ios::badbit);
    int status = runCommand(argc, argv);
    std::cout.flush();
    return status;
  } catch (const std::ios_base::failure &) {
    // Nothing else throws it: files are read and written without streams, or
    // by streams that are asked.
    int code = errno;
    std::cout.exceptions(std::ios::goodbit); // it is flushed once more
    return sayError(
        std::string("cannot write standard output: ") + std::strerror(code), 1);
  } catch (const std::bad_alloc &) {
    return sayError("there is not enough memory for this input", 1);
  } catch (const std::exception &error) {
    return sayError(error.what(), 1);
  }
}

int main(int argc, char **argv) {
  int status = guardedMain(argc, argv);
  // The end of OpenBLAS waits for its threads, and these may wait for memory.
  if (kvc::rt::isAddressSpaceLimited())
    std::_Exit(std::fflush(stdout) == 0 ? status : 1);
  return status;
}
