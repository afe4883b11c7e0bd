//===- random_policies.cpp - the compiler against random policies ---------===//
//
// docs/random-policies.md says how to use it.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Failure.h"
#include "executor/io/MappedFile.h"
#include "test/random/Children.h"
#include "test/random/Generator.h"
#include "test/random/Shrink.h"

#include <CLI/CLI.hpp>
#include "runtime/base/Format.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <unistd.h>

using namespace kvc;
using namespace kvc::random;

namespace {

struct Options {
  uint64_t seed = 0;
  int64_t count = 1;
  unsigned jobs = 1;
  double seconds = 60;
  std::string save, file, caseText, replay, ptxas, target = "host", cache;
  bool coverage = false, shrink = false, print = false, verbose = false;
};

std::string policyOf(const Options &options, uint64_t seed) {
  return Generator(seed, /*merged=*/options.cache == "merged").make();
}

/// The seed's, on the cache that is asked for.
Case caseOf(const Options &options, uint64_t seed, const std::string &policy) {
  Case c = makeCase(seed);
  if (!options.cache.empty())
    c.cache = Case::parse("cache=" + options.cache).cache;
  return fitted(c, policy);
}

/// A folder for libraries that is gone when we are.
class Folder {
public:
  Folder() {
    std::string path =
        (std::filesystem::temp_directory_path() / "kvc-random-XXXXXX").string();
    if (!mkdtemp(path.data()))
      throw std::runtime_error("cannot make " + path);
    name = path;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(name, ignored);
  }
  std::string name;
};

std::string firstLine(const std::string &text) {
  return text.substr(0, text.find('\n'));
}

/// A refusal without the numbers and types in it.
std::string ruleOf(const std::string &message) {
  return firstLine(message).substr(0, message.find(", got"));
}

class Run {
public:
  explicit Run(const Options &options) : options(options) {
    trial.folder = folder.name;
    trial.ptxas = options.ptxas;
    trial.target = rt::chooseTarget(options.target).kind;
  }

  int file() {
    std::string policy = rt::readText(options.file);
    Case c = Case::parse(options.caseText);
    Verdict verdict = Children(trial, 1, options.seconds).run(policy, c);
    std::cout << verdict.kind << "\n" << verdict.message;
    if (verdict.isFault() && options.shrink)
      save("file", policy, c, verdict);
    if (options.coverage) {
      coverage.add(verdict.cells);
      coverage.print(std::cout);
    }
    return verdict.isFault();
  }

  /// Policies that were wrong once, each with its case in its first line.
  int found() {
    std::vector<std::filesystem::path> files;
    for (const auto &entry :
         std::filesystem::directory_iterator(options.replay))
      if (entry.path().extension() == ".mlir")
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    Children children(trial, 1, options.seconds);
    for (const auto &path : files) {
      std::string policy = rt::readText(path.string());
      std::string line = firstLine(policy), mark = "--case ";
      size_t at = line.find(mark);
      if (at == std::string::npos)
        throw rt::fail(KVC_BAD_ARGUMENT, "{}: must have its case in line 1",
                       path.string());
      Verdict verdict =
          children.run(policy, Case::parse(line.substr(at + mark.size())));
      good += verdict.kind == "ok";
      faults += verdict.kind != "ok";
      if (verdict.kind != "ok")
        std::cout << rt::formatted("{}: {}: {}\n", path.stem().string(),
                                   verdict.kind, firstLine(verdict.message));
    }
    std::cout << rt::formatted("{} policies: {} ok, {} faults\n", good + faults,
                               good, faults);
    return faults > 0 || good == 0;
  }

  int seeds() {
    Children children(trial, options.jobs, options.seconds);
    int64_t given = 0;
    children.run(
        [&](Children::Task &task) {
          if (given == options.count)
            return false;
          task.seed = options.seed + uint64_t(given++);
          task.policy = policyOf(options, task.seed);
          task.c = caseOf(options, task.seed, task.policy);
          return true;
        },
        [&](const Children::Task &task, const Verdict &verdict) {
          note(task, verdict);
        });
    report();
    // Ten policies are enough to tell that most of them can be compiled.
    return faults > 0 || (options.count >= 10 && refused > good);
  }

private:
  const Options &options;
  Folder folder;
  TrialOptions trial;
  Coverage coverage;
  std::map<std::string, std::vector<uint64_t>> kinds;
  std::map<std::string, int64_t> refusals;
  int64_t good = 0, refused = 0, faults = 0;
  double compileSeconds = 0, ptxSeconds = 0, runSeconds = 0, judgeSeconds = 0;

  void note(const Children::Task &task, const Verdict &verdict) {
    coverage.add(verdict.cells);
    compileSeconds += verdict.compileSeconds;
    ptxSeconds += verdict.ptxSeconds;
    runSeconds += verdict.runSeconds;
    judgeSeconds += verdict.judgeSeconds;
    if (options.verbose)
      std::cerr << rt::formatted(
          "seed {}: {} compile {:.2f} run {:.2f} judge {:.2f} disturbed {}\n",
          task.seed, verdict.kind, verdict.compileSeconds, verdict.runSeconds,
          verdict.judgeSeconds, verdict.disturbedRuns);
    if (verdict.kind == "ok")
      return void(++good);
    if (verdict.kind == "refused") {
      ++refusals[ruleOf(verdict.message)];
      return void(++refused);
    }
    ++faults;
    kinds[verdict.kind].push_back(task.seed);
    std::cout << rt::formatted("seed {}: {}: {}\n", task.seed, verdict.kind,
                               firstLine(verdict.message));
    std::cout.flush();
    if (!options.save.empty())
      save(rt::formatted("seed-{}", task.seed), task.policy, task.c, verdict);
  }

  /// Writes the policy with the command that repeats its fault, and if asked to
  /// a smaller one.
  void save(const std::string &name, const std::string &policy, const Case &c,
            const Verdict &verdict) {
    std::string folder = options.save.empty() ? "." : options.save;
    std::filesystem::create_directories(folder);
    write(rt::formatted("{}/{}.mlir", folder, name), {policy, c}, verdict);
    if (!options.shrink)
      return;
    Children children(trial, 1, options.seconds);
    Verdict last = verdict;
    Failing small = shrink(
        {policy, c},
        [&](const Failing &failing) {
          Verdict now = children.run(failing.policy, failing.c);
          bool same = kindOf(now) == kindOf(verdict);
          if (same)
            last = now;
          return same;
        },
        400);
    write(rt::formatted("{}/{}-small.mlir", folder, name), small, last);
  }

  /// Scores are what tokens are kept by.
  static std::string kindOf(const Verdict &verdict) {
    return verdict.kind == "scores" ? "tokens" : verdict.kind;
  }

  static void write(const std::string &path, const Failing &failing,
                    const Verdict &verdict) {
    std::ofstream(path) << rt::formatted(
        "// random_policies --file {} --case {}\n// {}: {}\n{}", path,
        failing.c.text(), verdict.kind, firstLine(verdict.message),
        failing.policy);
  }

  void report() {
    for (const auto &[kind, seeds] : kinds) {
      std::string list;
      for (uint64_t seed : seeds)
        list += rt::formatted(" {}", seed);
      std::cout << rt::formatted("{} {}:{}\n", seeds.size(), kind, list);
    }
    for (const auto &[rule, count] : refusals)
      std::cout << rt::formatted("{} refused: {}\n", count, rule);
    if (options.coverage)
      coverage.print(std::cout);
    std::cout << rt::formatted(
        "seconds: compile {:.1f}, PTX {:.1f}, run {:.1f}, judge {:.1f}\n",
        compileSeconds, ptxSeconds, runSeconds, judgeSeconds);
    std::cout << rt::formatted("{} policies: {} ok, {} refused, {} faults\n",
                               good + refused + faults, good, refused, faults);
  }
};

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("The compiler against random policies");
  app.add_option("--seed", options.seed, "The first seed");
  app.add_option("--count", options.count, "How many seeds");
  app.add_option("--jobs", options.jobs, "Processes at once");
  app.add_option("--seconds", options.seconds, "The longest that one may take");
  app.add_option("--save", options.save, "A folder for policies with faults");
  app.add_option("--file", options.file, "A policy in the place of seeds");
  app.add_option("--case", options.caseText, "What the file is run on");
  app.add_option("--replay", options.replay,
                 "A folder of policies with their cases in their first lines");
  app.add_option("--cache", options.cache,
                 "What seeds run on: dense, ragged, paged or merged; each its "
                 "own");
  app.add_option("--ptxas", options.ptxas, "Assemble PTX with this program");
  app.add_option("--target", options.target, "host, cuda or ptx");
  app.add_flag("--coverage", options.coverage, "Print what was covered");
  app.add_flag("--shrink", options.shrink,
               "Make policies with faults smaller, into --save");
  app.add_flag("--print", options.print, "Print the policies, run nothing");
  app.add_flag("--verbose", options.verbose, "A line for every seed");
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.print) {
      for (uint64_t seed = options.seed;
           seed < options.seed + uint64_t(options.count); ++seed) {
        std::string policy = policyOf(options, seed);
        std::cout << "// " << caseOf(options, seed, policy).text() << "\n"
                  << policy;
      }
      return 0;
    }
    Run run(options);
    return !options.replay.empty() ? run.found()
           : !options.file.empty() ? run.file()
                                   : run.seeds();
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << "\n";
    return 2;
  }
}
