//===- MeasureCommand.cpp - kvc-run measure and its like ------------------===//

#include "executor/cost/MeasureAttention.h"
#include "executor/cost/MeasureCard.h"
#include "executor/cost/MeasureLayer.h"
#include "tools/kvc-run/CostOptions.h"

void kvc::rt::addMeasure(CLI::App &app, std::function<int()> &run) {
  auto options = std::make_shared<MeasureOptions>();
  CLI::App &command = *app.add_subcommand(
      "measure", "Measure what one layer of a policy takes on the GPU");
  addLayer(command, *options, run, [options] { measure(*options); });
  addRepeats(command, options->repeats);
}

void kvc::rt::addMeasureAttention(CLI::App &app, std::function<int()> &run) {
  auto options = std::make_shared<AttentionMeasureOptions>();
  CLI::App &command = *app.add_subcommand(
      "measure-attention", "Measure what kvc_attend takes on the GPU");
  addCall(command, *options, run, [options] { measureAttention(*options); });
  addRepeats(command, options->repeats);
}

void kvc::rt::addMeasureCard(CLI::App &app, std::function<int()> &run) {
  auto options = std::make_shared<CardMeasureOptions>();
  CLI::App &command = *app.add_subcommand(
      "measure-card", "Measure the constants of the cost model on the GPU");
  command.add_flag("--small", options->small,
                   "Little of everything, to see that it runs");
  command.add_option("--json", options->json, "File for the numbers")
      ->check(notEmpty);
  command.callback([options, &run] {
    run = [options] {
      measureCard(*options);
      return 0;
    };
  });
}
