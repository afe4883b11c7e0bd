//===- Trial.cpp - one policy, compiled, run and judged -------------------===//

#include "test/random/Trial.h"

#include "runtime/base/Failure.h"
#include "test/matrix/Eviction.h"
#include "test/matrix/HeldRows.h"
#include "test/random/Noise.h"
#include "test/random/Placing.h"
#include "test/random/Spread.h"
#include "tools/kvc-opt/Register.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <chrono>
#include <filesystem>
#include <set>

#include <unistd.h>

using namespace mlir;
using namespace kvc;
using namespace kvc::random;

namespace {

class Clock {
public:
  /// Seconds since the last call.
  double operator()() {
    auto now = std::chrono::steady_clock::now();
    std::chrono::duration<double> passed = now - last;
    last = now;
    return passed.count();
  }

private:
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

/// Diagnostics of the reference, which must not reach the terminal.
class Listener {
public:
  explicit Listener(MLIRContext &context)
      : handler(&context, [this](Diagnostic &diagnostic) {
          if (text.empty())
            text = diagnostic.str();
        }) {}
  std::string text;

private:
  ScopedDiagnosticHandler handler;
};

class Trial {
public:
  Trial(const std::string &policy, const Case &c, const TrialOptions &options,
        const std::function<void(const char *)> &say)
      : text(policy), c(c), options(options), say(say) {
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.disableMultithreading();
    context.loadDialect<KVCDialect, arith::ArithDialect, math::MathDialect>();
  }

  Verdict run() {
    say("compile");
    CompileOptions wanted{.shape = c.shape,
                          .cache = c.cache,
                          .into = KVC_DENSE,
                          .pruneNorms = false,
                          .listsAbove = {},
                          .library = libraryPath(""),
                          .ptx = options.ptx,
                          .ptxas = options.ptxas,
                          .chips = {}};
    // Prompts are short here: candidates are listed of all, of some, or of none.
    if (c.data % 3 < 2)
      wanted.listsAbove = c.data % 3 * 60;
    if (options.target != KVC_HOST) // forms for warpgroups, if there are any
      wanted.chips = {"sm_80", "sm_90a"};
    Clock clock;
    compiled = compile(context, text, wanted);
    verdict.ptxSeconds = compiled.ptxSeconds;
    verdict.compileSeconds = clock() - compiled.ptxSeconds;
    verdict.cells = compiled.cells;
    for (const std::string &fault : compiled.faults)
      blame(fault.substr(0, fault.find(':')), fault);
    if (verdict.isFault())
      return verdict;
    if (!compiled.refused.empty()) {
      verdict.kind = "refused";
      verdict.message = compiled.refused;
      return verdict;
    }
    if (c.cache != KVC_DENSE)
      verdict.cells.runOnRows();
    Listener listener(context);
    module = parseSourceString<ModuleOp>(text, &context, "policy.mlir");
    policy = *module->getOps<PolicyOp>().begin();
    reference::eraseUnused(policy);
    readPolicy();
    if (ranksByNorm) {
      say("compile with pruned norms");
      wanted.pruneNorms = true;
      wanted.ptx = false;
      wanted.library = libraryPath("pruned");
      Compiled pruned = compile(context, text, wanted);
      for (const std::string &cell : pruned.cells.ops)
        verdict.cells.ops.insert(cell);
      prunes = pruned.bounded && pruned.refused.empty();
      if (!pruned.refused.empty())
        blame("prune", "refused with pruned norms: " + pruned.refused);
    }
    if (isPlaced()) {
      say("compile into a view");
      wanted.cache = planned(c);
      wanted.into = c.into;
      wanted.pruneNorms = wanted.ptx = false;
      wanted.library = libraryPath("placed");
      Compiled placed = compile(context, text, wanted);
      if (!placed.refused.empty())
        blame("place", "refused into a view: " + placed.refused);
    }
    try {
      runLayers(listener);
    } catch (const std::exception &failure) {
      blame("runtime", failure.what());
    }
    for (const char *option : {"", "pruned", "placed"})
      std::filesystem::remove(libraryPath(option));
    return verdict;
  }

private:
  const std::string &text;
  const Case &c;
  const TrialOptions &options;
  const std::function<void(const char *)> &say;
  DialectRegistry registry;
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  PolicyOp policy;
  Compiled compiled;
  Verdict verdict;
  bool carriesState = false, readsTable = false;
  SmallVector<StringAttr> stateNames; // of what rows carry
  bool looksAtLayer = false, ranksByNorm = false, prunes = false;
  bool ranksAlone = false;

  std::string libraryPath(const std::string &option) const {
    return options.folder + "/" + std::to_string(getpid()) + option + ".so";
  }

  void blame(const std::string &kind, const std::string &line) {
    if (!verdict.isFault())
      verdict.kind = kind;
    verdict.message += line + "\n";
  }
  void blame(const std::string &kind, const test::Faults &faults,
             const std::string &where) {
    for (const std::string &fault : faults.get())
      blame(kind, where + fault);
  }

  /// What is kept is also put into a view: memory that the host can look into.
  bool isPlaced() const {
    return c.into != KVC_DENSE && options.target != KVC_CUDA;
  }
  /// True for the top-k whose scores the kernels show.
  bool isRanked(Operation *op) const {
    auto where = op->getLoc()->findInstanceOf<FileLineColLoc>();
    return isa<TopkOp>(op) && where && compiled.rankedLine == where.getLine();
  }

  void readPolicy() {
    policy.walk([&](Operation *op) {
      looksAtLayer |= isa<LayerOp, LayersOp, AllocateLayersOp, AllocateTableOp,
                          KeptLayersOp>(op);
      carriesState |= isa<KeptLayersOp>(op);
      readsTable |= isa<AllocateTableOp>(op);
      ranksByNorm |= isa<ProjectedNormOp>(op);
      if (auto keep = dyn_cast<KeepOp>(op))
        stateNames = carriedNames(keep.getNamesAttr());
      if (auto keep = dyn_cast<KeepOp>(op))
        if (Operation *mask = keep.getMask().getDefiningOp())
          ranksAlone = isRanked(mask);
    });
  }

  std::unique_ptr<rt::Evictor> open(const std::string &library,
                                    uint64_t seed) const {
    kvc_target target = {};
    target.kind = options.target;
    target.seed = seed;
    target.threads = 1;
    return test::openEvictor(library, target, c.shape, c.sequences, c.cache);
  }

  /// The reference, disturbed, with the scores that the kernels show.
  FailureOr<reference::Kept> interpret(const test::Problem &problem,
                                       uint64_t seed, double amplitude) {
    reference::Layer layer = problem.layer;
    Noise noise(policy, layer, seed, amplitude);
    if (amplitude)
      layer.round = [&](double weight, int64_t row) {
        return problem.layer.round(noise.movedWeight(weight, row), row);
      };
    if (amplitude && layer.narrow)
      layer.narrow = [&](double x) {
        return problem.layer.narrow(noise.movedKey(x));
      };
    std::optional<reference::Tensor> ranked;
    reference::Watch watch = [&](Operation *op,
                                 ArrayRef<const reference::Tensor *> operands,
                                 reference::Tensor &result) {
      noise(op, operands, result);
      if (isRanked(op))
        ranked = reference::broadcast(*operands[0], result.axes, result.shape);
    };
    auto kept = reference::interpret(policy, layer, watch);
    if (failed(kept))
      return kept;
    // Pointers into the layer that has been disturbed: the same as in the
    // problem's.
    if (kept->merge)
      for (auto &side : kept->merge->sides)
        side = side == &layer.k   ? &problem.layer.k
               : side == &layer.v ? &problem.layer.v
                                  : &problem.layer.kRaw;
    for (size_t g = 0; kept->past && ranked && g < kept->scores.size(); ++g) {
      std::vector<double> &scores = kept->scores[g];
      scores.assign(ranked->data.begin() + g * kept->past,
                    ranked->data.begin() + (g + 1) * kept->past);
      for (int64_t t = 0; t < kept->past && !problem.layer.rows.empty(); ++t)
        if (!kept->ranked[g][t])
          scores[t] = NAN;
    }
    return kept;
  }

  void runLayers(Listener &listener) {
    say("open");
    // What is given the log-sum-exp runs its threads in another order too: the
    // reference judges both.
    auto plain = open(libraryPath(""), 0), given = open(libraryPath(""), 1);
    std::vector<std::unique_ptr<rt::Evictor>> seeded;
    if (options.target != KVC_CUDA)
      seeded.push_back(open(libraryPath(""), 2 + c.data % 64));
    auto pruned = prunes ? open(libraryPath("pruned"), 0) : nullptr;
    if (pruned &&
        c.data % 2) // what is made of the weights, by a call of its own
      pruned->keepPrepared();
    test::Module placed{nullptr, kvc_module_close};
    if (isPlaced())
      placed = test::openLibrary(libraryPath("placed"), options.target,
                                 1 + c.data % 64);
    std::vector<std::vector<double>> keptLayers;
    for (auto [tokens, budget] : c.sequences)
      keptLayers.emplace_back(tokens);
    int64_t layers = looksAtLayer ? c.layers : 1;
    std::vector<float> table =
        test::Problem::table(layers, c.shape.kvHeads * c.shape.group);
    for (int64_t layer = 0; layer < layers && !verdict.isFault(); ++layer) {
      Clock clock;
      std::vector<test::Problem> problems;
      for (size_t s = 0; s < c.sequences.size(); ++s) {
        auto [tokens, budget] = c.sequences[s];
        problems.emplace_back(c.shape, tokens, budget, c.keys,
                              c.data + 7 * s + (carriesState ? layer : 0),
                              test::queriesFor(policy, tokens), c.special);
        reference::Layer &made = problems.back().layer;
        made.layer = layer;
        made.layers = layers;
        made.keptLayers = keptLayers[s];
        made.table = {table.begin(), table.end()};
        // Every other time nobody says what is new, and nothing was carried.
        if (!stateNames.empty() && (c.data + s) % 2)
          problems.back().carry(stateNames, c.data + 31 * s);
        if (c.cache != KVC_DENSE)
          problems.back().hold(
              test::drawRows(made, c.data + 101 * s + 13 * layer));
        if (c.cache == KVC_MERGED)
          problems.back().merge(c.data + 57 * s + 17 * layer);
      }
      verdict.judgeSeconds += clock();
      say("run");
      std::string where =
          layers > 1 ? "layer " + std::to_string(layer) + ", " : "";
      const std::vector<float> *read = readsTable ? &table : nullptr;
      rt::KeptLayer first = test::evict(*plain, problems, read, false);
      // That of members nobody computes here.
      rt::KeptLayer withLse =
          test::evict(*given, problems, read, c.cache != KVC_MERGED);
      for (auto &other : seeded)
        blame("threads",
              test::compareBytes(first,
                                 test::evict(*other, problems, read, false)),
              where + "another order of threads: ");
      if (pruned)
        blame("prune",
              test::compareRows(first,
                                test::evict(*pruned, problems, read, false)),
              where + "pruned norms: ");
      if (placed)
        blame("place",
              judgePlaced(placed.get(), c, policy, problems, read,
                          carriesState ? keptLayers
                                       : std::vector<std::vector<double>>(),
                          first),
              where + placeOf(c).text() + ": ");
      verdict.runSeconds += clock();
      for (size_t s = 0; s < problems.size() && !verdict.isFault(); ++s) {
        say("reference");
        std::string which = where + "sequence " + std::to_string(s) + ": ";
        auto want = interpret(problems[s], 0, 0);
        if (failed(want)) {
          blame("reference", which + listener.text);
          break;
        }
        say("judge");
        Spread margin(*want, [&](uint64_t seed, double amplitude) {
          return interpret(problems[s], seed, amplitude);
        });
        judge(problems[s], first.sequences[s], *want, margin, which);
        // Near ties may have changed the state of later layers.
        if (!carriesState || layer == 0)
          judge(problems[s], withLse.sequences[s], *want, margin,
                which + "log-sum-exp given: ");
        verdict.disturbedRuns += margin.runsMade();
        const rt::KeptSequence &kept = first.sequences[s];
        const std::vector<int32_t> &tokens =
            c.cache == KVC_DENSE ? kept.indices : kept.positions;
        for (int32_t t : std::set<int32_t>(tokens.begin(), tokens.end()))
          ++keptLayers[s][t];
      }
      verdict.judgeSeconds += clock();
    }
  }

  /// What is kept are the best by the scores that the kernels show.
  void judgeRanking(const rt::KeptSequence &got, const reference::Kept &want,
                    test::Faults &faults) const {
    size_t at = 0;
    auto from = got.scores.begin();
    for (size_t g = 0; g < got.counts.size(); ++g) {
      // The first rows, or tokens, of a head.
      long ranked = got.past;
      if (c.cache != KVC_DENSE)
        ranked = std::count(want.ranked[g].begin(), want.ranked[g].end(), true);
      std::vector<int64_t> marked;
      for (int32_t i = 0; i < got.counts[g]; ++i, ++at)
        if (got.indices[at] < ranked)
          marked.push_back(got.indices[at]);
      std::vector<float> scores(from, from + ranked);
      from += ranked;
      faults.append(test::judgeRanking(scores, marked),
                    "head " + std::to_string(g) +
                        ", by the kernels' own scores: ");
    }
  }

  void judge(const test::Problem &problem, const rt::KeptSequence &got,
             const reference::Kept &want, Spread &margin,
             const std::string &where) {
    // What is not finite, and how near an overflow sums came, no tolerance tells.
    reference::Kept judged = want;
    rt::KeptSequence shown = got;
    test::Faults faults;
    if (c.cache != KVC_DENSE)
      shown = test::tokensOf(problem, got, want, faults);
    if (c.special != test::Special::None)
      judged.carried.clear(), shown.states.clear();
    if (faults.empty()) {
      faults = test::judge(problem, shown, judged, margin);
      if (ranksAlone && got.past)
        judgeRanking(got, want, faults);
    }
    // The kind of the first line: what is wrong of tokens is so of scores too.
    bool scores = !faults.empty();
    for (const std::string &line : faults.get())
      scores &= line.find("score") != std::string::npos;
    blame(scores ? "scores" : "tokens", faults, where);
  }
};

} // namespace

Verdict kvc::random::tryPolicy(const std::string &policy, const Case &c,
                               const TrialOptions &options,
                               const std::function<void(const char *)> &say) {
  return Trial(policy, c, options, say).run();
}
