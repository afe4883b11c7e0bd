//===- CostOptions.cpp - options of profile and measure -------------------===//

#include "tools/kvc-run/CostOptions.h"

using namespace kvc::rt;

/// A list of whole numbers with commas between; `take` reads it when the command is
/// given.
static void addNumbers(CLI::App &command, const std::string &name,
                       const char *text, std::vector<uint32_t> &numbers,
                       std::function<void()> &take) {
  auto given = std::make_shared<std::vector<std::string>>();
  command.add_option(name, *given, text)
      ->required()
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  take = [=, &numbers] {
    for (const std::string &entry :
         splitList(name, *given, wholeNumber(1, 1 << 24)))
      numbers.push_back(uint32_t(std::stoul(entry)));
  };
}

static void addNumber(CLI::App &command, const char *name, uint32_t &value,
                      const char *text, uint64_t least, uint64_t most) {
  command.add_option(name, value, text)->check(wholeNumber(least, most));
}

void kvc::rt::addLayer(CLI::App &command, LayerOptions &options,
                       std::function<int()> &run, std::function<void()> act) {
  command.add_option("--policy", options.policy, "Library of kvc-opt")
      ->required()
      ->check(notEmpty);
  std::function<void()> takeTokens;
  addNumbers(command, "--tokens",
             "Tokens of the layer, several with commas between", options.tokens,
             takeTokens);
  BudgetOptions budget =
      addBudget(command, options.budget, options.keep, "Share of the tokens");
  addNumber(command, "--kv-heads", options.kvHeads, "KV heads (8)", 1, 1024);
  addNumber(command, "--hidden", options.hidden,
            "Outputs of the output projection (4096)", 1, 1 << 20);
  command.add_flag("--no-lse{false}", options.lse,
                   "The engine does not bring the log-sum-exp");
  command
      .add_option("--page", options.page,
                  "Slots of a page, where the cache is paged (16)")
      ->check(CLI::IsMember({1, 2, 4, 8, 16, 32, 64, 128, 256}));
  command
      .add_option("--spread", options.spread,
                  "Standard deviation of the logits (1)")
      ->check(wholeNumber(1, 8));
  command.add_option("--json", options.json, "File for the numbers")
      ->check(notEmpty);
  command.callback([=, &run] {
    if (!budget.given())
      throw CLI::RequiredError("--budget or --keep");
    takeTokens();
    run = [act] {
      act();
      return 0;
    };
  });
}

void kvc::rt::addCall(CLI::App &command, CallOptions &options,
                      std::function<int()> &run, std::function<void()> act) {
  std::function<void()> takeRows;
  addNumbers(command, "--rows",
             "Rows of a KV head on average, several with commas between",
             options.rows, takeRows);
  addNumber(command, "--queries", options.queries,
            "Newest tokens of each sequence, 0: a whole prompt (1)", 0,
            1 << 24);
  addNumber(command, "--batch", options.batch, "Sequences (1)", 1, 65535);
  addNumber(command, "--kv-heads", options.kvHeads, "KV heads (8)", 1, 1024);
  addNumber(command, "--group", options.group, "Query heads of a KV head (4)",
            1, 1024);
  addNumber(command, "--head-dim", options.headDim, "Head size (128)", 1, 256);
  addNumber(command, "--skew", options.skew,
            "How many times the shortest head's rows the longest has (1)", 1,
            1024);
  command.add_option("--dtype", options.dtype, "f32, f16 or bf16 (bf16)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, kvc_dtype>{
          {"f32", KVC_F32}, {"f16", KVC_F16}, {"bf16", KVC_BF16}}));
  command
      .add_option("--page", options.page,
                  "Slots of a page, 0: heads behind each other (0)")
      ->check(CLI::IsMember({0, 1, 2, 4, 8, 16, 32, 64, 128, 256}));
  command.add_option("--json", options.json, "File for the numbers")
      ->check(notEmpty);
  command.callback([=, &run] {
    takeRows();
    run = [act] {
      act();
      return 0;
    };
  });
}

void kvc::rt::addEstimate(CLI::App &command, std::string &card,
                          uint32_t &blocks) {
  command.add_option("--card", card, "h100, h200 or a100 (h100)")
      ->check(notEmpty);
  addNumber(command, "--blocks", blocks,
            "Blocks that run along each dimension of a grid, 0: all (6)", 0,
            1 << 20);
}

void kvc::rt::addRepeats(CLI::App &command, uint32_t &repeats) {
  addNumber(command, "--repeats", repeats, "Runs that are timed (100)", 1,
            1 << 16);
}
