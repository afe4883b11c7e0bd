//===- EvalCommand.cpp - kvc-run eval -------------------------------------===//

#include "runtime/base/Failure.h"
#include "eval/Evaluate.h"
#include "tools/kvc-run/Commands.h"

#include <chrono>
#include <iostream>
#include <limits>

#include <unistd.h>

using namespace kvc::rt;

namespace {

/// "done of all, and how long the rest will take", on one line of a terminal.
std::function<void(size_t, size_t)> progressBar() {
  auto start = std::chrono::steady_clock::now();
  auto first = std::make_shared<size_t>(0);
  return [=](size_t done, size_t all) {
    double spent =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    // What an earlier run has done comes at once.
    if (spent < 0.5)
      *first = done;
    double left =
        done > *first ? spent / double(done - *first) * double(all - done) : 0;
    constexpr size_t width = 30;
    size_t filled = done * width / all;
    std::cerr << formatted("\r[{:#<{}}{:.<{}}] {} of {}, {:.0f} s left \033[K",
                           "", filled, "", width - filled, done, all, left)
              << (done == all ? "\r\033[K" : "") << std::flush;
  };
}

} // namespace

void kvc::rt::addEval(CLI::App &app, std::function<int()> &run) {
  auto options = std::make_shared<EvalOptions>();
  EvalOptions &o = *options;
  auto mode = std::make_shared<std::string>("aware");
  CLI::App *command = app.add_subcommand(
      "eval", "Measure what policies cost in quality; a stopped run goes on");
  auto list = [&](const char *name, std::vector<std::string> &into,
                  const char *text) {
    return command->add_option(name, into, text);
  };
  command->add_option("--model", o.model, "Hugging Face model directory")
      ->required()
      ->check(notEmpty);
  list("--policy", o.policies, "Libraries of kvc-opt");
  list("--budgets", o.budgets, "5%,10% of the tokens, or numbers of tokens");
  list("--tasks", o.tasks,
       "FILE.jsonl (needle, LongBench), ruler:KIND, ruler:all, text:FILE")
      ->required();
  command->add_option("--mode", *mode, "Question: aware, agnostic or both")
      ->check(CLI::IsMember({"aware", "agnostic", "both"}));
  command->add_option("-o,--results,--json", o.results, "File of results, JSON")
      ->required()
      ->check(notEmpty);
  auto number = [&](const char *name, auto &into, const char *text) {
    using Number = std::remove_reference_t<decltype(into)>;
    command->add_option(name, into, text)
        ->check(wholeNumber(0, std::numeric_limits<Number>::max()));
  };
  auto name = [&](const char *option, std::string &into, const char *text) {
    command->add_option(option, into, text)->check(notEmpty);
  };
  number("--limit", o.task.limit, "Prompts of each task");
  number("--length", o.task.length,
         "Tokens of ruler: and text: prompts (4096)");
  number("--seed", o.task.seed, "Of ruler: prompts (0)");
  name("--haystack", o.task.haystack, "Text between needles");
  name("--squad", o.task.squad, "SQuAD's JSON, for ruler:qa_1");
  name("--hotpotqa", o.task.hotpot, "HotpotQA's JSON, for ruler:qa_2");
  name("--longbench", o.task.longbench,
       "Folder of dataset2prompt.json, dataset2maxlen.json");
  auto *details =
      command->add_option("--details", o.details,
                          "Prompts of each task whose layers are recorded (2)");
  details->check(wholeNumber(0, UINT32_MAX));
  auto *chunk = command->add_option("--chunk", o.chunk,
                                    "Tokens of a prompt that are read at once");
  chunk->check(wholeNumber(1, 1 << 30))->excludes(details);
  auto *between = command->add_flag("--evict-between", o.evictBetween,
                                    "Compress each chunk as it has been read");
  between->needs(chunk);
  command
      ->add_flag("--rerank", o.rerank,
                 "Evict behind each chunk, from all that is kept")
      ->needs(chunk)
      ->excludes(between);
  auto *every = command
                    ->add_option("--every", o.every,
                                 "Evict behind the prompt every so many tokens")
                    ->check(wholeNumber(1, 1 << 30));
  command
      ->add_option(
          "--every-policy", o.everyPolicy,
          "Library of the policy that --every runs, where it is another")
      ->check(notEmpty)
      ->needs(every);
  name("--target", o.target, "host, cuda or ptx");
  name("--table", o.table, "Importance of heads");
  command->callback([=, &run] {
    options->policies = splitList("--policy", options->policies, notEmpty);
    options->budgets = splitList("--budgets", options->budgets, notEmpty);
    options->tasks = splitList("--tasks", options->tasks, notEmpty);
    if (options->policies.empty() != options->budgets.empty())
      throw CLI::ValidationError("--policy", "goes with --budgets");
    if (options->policies.empty() &&
        (options->evictBetween || options->rerank || options->every))
      throw CLI::ValidationError("--evict-between, --rerank and --every",
                                 "go with --policy");
    options->aware = *mode != "agnostic";
    options->agnostic = *mode != "aware";
    if (isatty(STDERR_FILENO))
      options->progress = progressBar();
    run = [options] {
      std::cout << evaluate(*options) << std::flush;
      return 0;
    };
  });
}
