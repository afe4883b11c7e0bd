//===- ReportCommand.cpp - kvc-run report ---------------------------------===//

#include "executor/io/Safetensors.h"
#include "eval/report/Report.h"
#include "tools/kvc-run/Commands.h"

void kvc::rt::addReport(CLI::App &app, std::function<int()> &run) {
  auto results = std::make_shared<std::vector<std::string>>();
  auto output = std::make_shared<std::string>();
  CLI::App *command =
      app.add_subcommand("report", "Show results of eval as a page of HTML");
  command->add_option("results", *results, "Files of kvc-run eval")
      ->required()
      ->check(notEmpty);
  command->add_option("-o,--output", *output, "The page")
      ->required()
      ->check(notEmpty);
  command->callback([=, &run] {
    run = [=] {
      // The page in their place would be the end of hours of work.
      checkWritable({*output}, *results);
      writeFiles({{*output, {formatReport(*results)}}});
      return 0;
    };
  });
}
