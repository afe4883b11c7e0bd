//===- kvc-run.cpp - policies on tensors and in models --------------------===//

#include "tools/kvc-run/Commands.h"

#include "runtime/base/Failure.h"

#include <CLI/CLI.hpp>

#include <iostream>

int main(int argc, char **argv) {
  CLI::App app("kvc-run: run compiled eviction policies");
  app.require_subcommand(1);
  std::function<int()> run;
  kvc::rt::addApply(app, run);
  kvc::rt::addGenerate(app, run);
  kvc::rt::addEval(app, run);
  kvc::rt::addReport(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    // Help is no error; everything else is a usage error.
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return run();
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
