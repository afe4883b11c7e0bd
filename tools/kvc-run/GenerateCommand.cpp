//===- GenerateCommand.cpp - kvc-run generate -----------------------------===//

#include "runtime/base/Failure.h"
#include "executor/session/Generate.h"
#include "executor/io/MappedFile.h"
#include "executor/io/Safetensors.h"
#include "tools/kvc-run/Commands.h"

#include <iostream>

#include <unistd.h>

using namespace kvc::rt;

namespace {

struct Command {
  GenerateOptions options;
  std::string promptFile, json;
  std::vector<std::string> tokens; // "1,2,3"
};

void printSummary(const GenerateResult &r) {
  auto rate = [](size_t tokens, double seconds) {
    return seconds > 0 ? double(tokens) / seconds : 0.0;
  };
  std::cerr << formatted(
      "prefill {} tokens on {}, {:.0f} tokens/s; eviction {:.1f} ms; decode {} "
      "tokens, {:.0f} tokens/s; cache {} -> {} bytes ({:.1f} %)\n",
      r.promptTokens.size(), r.target,
      rate(r.promptTokens.size(), r.prefillSeconds), r.evictSeconds * 1e3,
      r.decodedTokens, rate(r.decodedTokens, r.decodeSeconds), r.cacheBytesFull,
      r.cacheBytesKept,
      100.0 * double(r.cacheBytesKept) / double(r.cacheBytesFull));
}

int runGenerate(Command &command) {
  GenerateOptions &options = command.options;
  std::vector<std::string> written;
  for (const std::string &path :
       {command.json, options.saveCache, options.dumpLayers})
    if (!path.empty())
      written.push_back(path);
  // A cache may be saved where it was loaded from.
  checkWritable(written, {options.policy.policy, options.later.policy,
                          options.policy.table, command.promptFile});
  if (!command.promptFile.empty())
    options.prompt = readText(command.promptFile);
  if (isatty(STDERR_FILENO))
    options.progress = [](uint32_t done, uint32_t layers) {
      std::cerr << formatted("\rprefill: step {} of {}{}", done, layers,
                             done == layers ? "\r\033[K" : "")
                << std::flush;
    };
  GenerateResult result = generate(options);
  if (!command.json.empty())
    writeFiles({{command.json, {formatResult(result), "\n"}}});
  for (const Answer &answer : result.answers)
    std::cout << answer.text << std::endl;
  for (const std::string &warning : result.warnings)
    std::cerr << "warning: " << warning << "\n";
  if (!result.policy.empty())
    std::cerr << formatted("policy {}, budget {} tokens per head, target {}\n",
                           result.policy, result.budget, result.target);
  printSummary(result);
  return 0;
}

} // namespace

void kvc::rt::addGenerate(CLI::App &app, std::function<int()> &run) {
  auto state = std::make_shared<Command>();
  GenerateOptions &o = state->options;
  CLI::App *command = app.add_subcommand(
      "generate", "Generate text with a policy inside the prefill");
  command->add_option("--model", o.model, "Hugging Face model directory")
      ->required()
      ->check(notEmpty);
  auto name = [&](CLI::App *to, const char *option, std::string &into,
                  const char *text) {
    return to->add_option(option, into, text)->check(notEmpty);
  };
  auto *policy =
      name(command, "--policy", o.policy.policy, "Library of kvc-opt");
  BudgetOptions budget =
      addBudget(*command, o.budget, o.keep, "Share of the prompt");
  budget.budget->needs(policy);
  budget.keep->needs(policy);
  auto *prompt = command->add_option_group("prompt");
  prompt->add_option("--prompt", o.prompt, "Text");
  name(prompt, "--prompt-file", state->promptFile, "File of text");
  prompt->add_option("--tokens", state->tokens, "Token ids, 1,2,3");
  name(prompt, "--load-cache", o.loadCache, "File of --save-cache");
  prompt->require_option(1);
  command
      ->add_option(
          "--question", o.questions,
          "Read after the prompt has been compressed; repeat it to ask "
          "the same cache")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  auto *chunk = command
                    ->add_option("--chunk", o.chunk,
                                 "Tokens of the prompt that are read at once")
                    ->check(wholeNumber(1, 1 << 30));
  auto *between = command->add_flag("--evict-between", o.evictBetween,
                                    "Compress each chunk as it has been read");
  between->needs(chunk)->needs(policy);
  auto *rerank = command->add_flag(
      "--rerank", o.rerank, "Evict behind each chunk, from all that is kept");
  rerank->needs(chunk)->needs(policy)->excludes(between);
  auto *every = command->add_option(
      "--every", o.every, "Evict behind the prompt every so many tokens");
  every->check(wholeNumber(1, 1 << 30))->needs(policy);
  name(command, "--every-policy", o.later.policy,
       "Library of the policy that --every runs, where it is another")
      ->needs(every);
  name(command, "--save-cache", o.saveCache,
       "File for the cache behind the prompt");
  command->add_option("--max-new-tokens", o.maxNewTokens, "Default 64")
      ->check(wholeNumber(1, 1 << 30));
  command->add_flag("--ignore-eos", o.ignoreEos, "Go on behind end tokens");
  name(command, "--target", o.target, "host, cuda or ptx");
  name(command, "--table", o.policy.table, "Importance of heads")
      ->needs(policy);
  name(command, "--json", state->json, "File for the same as data");
  name(command, "--dump-layers", o.dumpLayers,
       "File for the prefill's tensors, an input of apply")
      ->excludes(chunk);
  auto *dumpRuns =
      name(command, "--dump-runs", o.dumpRuns,
           "Folder for the cache of each eviction, inputs of apply");
  dumpRuns->needs(policy);
  command->callback([=, &o, &run] {
    for (const std::string &id :
         splitList("--tokens", state->tokens, wholeNumber(0, UINT32_MAX)))
      o.tokens.push_back(uint32_t(std::stoul(id)));
    if (*policy && !budget.given())
      throw CLI::RequiredError("--policy: --budget or --keep");
    if (!o.loadCache.empty() && (*chunk || !o.dumpLayers.empty()))
      throw CLI::ValidationError("--load-cache",
                                 "goes without --chunk and --dump-layers");
    if (*dumpRuns && !*rerank && !*every && o.loadCache.empty())
      throw CLI::ValidationError("--dump-runs",
                                 "goes with --rerank, --every or --load-cache");
    run = [state] { return runGenerate(*state); };
  });
}
