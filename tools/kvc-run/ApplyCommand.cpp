//===- ApplyCommand.cpp - kvc-run apply -----------------------------------===//

#include "executor/eviction/Apply.h"
#include "tools/kvc-run/Commands.h"

#include <iostream>

void kvc::rt::addApply(CLI::App &app, std::function<int()> &run) {
  auto options = std::make_shared<ApplyOptions>();
  CLI::App *command =
      app.add_subcommand("apply", "Apply one policy to given tensors");
  command->add_option("--policy", options->policy, "Library of kvc-opt")
      ->required()
      ->check(notEmpty);
  command->add_option("--input", options->inputs, "Layers, safetensors")
      ->required()
      ->check(notEmpty)
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_option("--output", options->outputs, "Kept rows, one per input")
      ->required()
      ->check(notEmpty)
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  BudgetOptions budget = addBudget(*command, options->budget, options->keep,
                                   "Share of the tokens");
  command->add_option("--target", options->target, "host, cuda or ptx")
      ->check(notEmpty);
  command->add_option("--table", options->table, "Importance of heads")
      ->check(notEmpty);
  auto *metrics =
      command
          ->add_option("--metrics", options->metrics, "File for metrics, JSON")
          ->check(notEmpty);
  command
      ->add_option("--metrics-queries", options->metricsQueries,
                   "Last queries that they are means of (1)")
      ->check(wholeNumber(1, 1 << 30))
      ->needs(metrics);
  command->add_flag("--scores", options->scores, "Write what was ranked");
  command->add_flag("--state", options->state,
                    "Write positions, and what rows carry, of prompts too");
  command
      ->add_option(
          "--page", options->page,
          "Lay the cache out in pages of so many slots, a power of two")
      ->check(wholeNumber(1, 1 << 16));
  auto *inPlace =
      command->add_flag("--in-place", options->inPlace,
                        "Kept rows stay in the slots or pages of the cache");
  command
      ->add_flag("--tail", options->tail,
                 "The last one lies where the head's last row lay")
      ->needs(inPlace);
  command
      ->add_option("--seed", options->seed,
                   "Order of emulated threads (0: ascending)")
      ->check(wholeNumber(0, UINT64_MAX));
  auto *profile =
      command->add_flag("--profile", options->profile,
                        "Print what a GPU would take, estimated from the PTX; "
                        "--target ptx");
  command->add_option("--card", options->card, "GPU of --profile (h100)")
      ->check(notEmpty)
      ->needs(profile);
  command->callback([options, budget, &run] {
    if (!budget.given())
      throw CLI::RequiredError("--budget or --keep");
    if (options->outputs.size() != options->inputs.size())
      throw CLI::ValidationError("--output",
                                 "must be given as often as --input");
    run = [options] {
      for (const std::string &note : apply(*options))
        std::cerr << note << "\n";
      return 0;
    };
  });
}
