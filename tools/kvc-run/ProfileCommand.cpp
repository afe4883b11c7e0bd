//===- ProfileCommand.cpp - kvc-run profile -------------------------------===//

#include "executor/eviction/ProfileLayer.h"
#include "tools/kvc-run/Commands.h"

void kvc::rt::addProfile(CLI::App &app, std::function<int()> &run) {
  auto options = std::make_shared<ProfileOptions>();
  auto tokens = std::make_shared<std::vector<std::string>>();
  CLI::App *command = app.add_subcommand(
      "profile", "Estimate what one layer of a policy takes on a GPU");
  command->add_option("--policy", options->policy, "Library of kvc-opt")
      ->required()
      ->check(notEmpty);
  command
      ->add_option("--tokens", *tokens,
                   "Tokens of the layer, several with commas between")
      ->required()
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  BudgetOptions budget = addBudget(*command, options->budget, options->keep,
                                   "Share of the tokens");
  command->add_option("--kv-heads", options->kvHeads, "KV heads (8)")
      ->check(wholeNumber(1, 1024));
  command
      ->add_option("--hidden", options->hidden,
                   "Outputs of the output projection (4096)")
      ->check(wholeNumber(1, 1 << 20));
  command->add_option("--card", options->card, "h100, h200 or a100 (h100)")
      ->check(notEmpty);
  command->add_flag("--no-lse{false}", options->lse,
                    "The engine does not bring the log-sum-exp");
  command
      ->add_option("--blocks", options->blocks,
                   "Blocks that run along each dimension of a grid, 0: all (6)")
      ->check(wholeNumber(0, 1 << 20));
  command
      ->add_option("--page", options->page,
                   "Slots of a page, where the cache is paged (16)")
      ->check(CLI::IsMember({1, 2, 4, 8, 16, 32, 64, 128, 256}));
  command
      ->add_option("--spread", options->spread,
                   "Standard deviation of the logits (1)")
      ->check(wholeNumber(1, 8));
  command->add_option("--json", options->json, "File for the numbers")
      ->check(notEmpty);
  command->callback([=, &run] {
    if (!budget.given())
      throw CLI::RequiredError("--budget or --keep");
    for (const std::string &entry :
         splitList("--tokens", *tokens, wholeNumber(1, 1 << 24)))
      options->tokens.push_back(uint32_t(std::stoul(entry)));
    run = [options] {
      profile(*options);
      return 0;
    };
  });
}
