//===- Ruler.cpp - samples of RULER, filled up to a length ----------------===//

#include "eval/Tasks.h"
#include "eval/ruler/Kinds.h"

#include "runtime/base/Failure.h"

#include <algorithm>
#include <utility>

using namespace kvc::rt;
using namespace kvc::rt::ruler;

/// The largest context that leaves room for question and answer.
static Sample fill(Growing growing, const TaskOptions &options,
                   const std::string &kind) {
  Sample sample = std::move(growing.sample);
  uint32_t fixed = options.count(sample.question) + sample.maxNewTokens;
  auto fits = [&](size_t units) {
    return options.count(growing.context(units)) + fixed <= options.length;
  };
  if (!fits(1))
    throw fail(KVC_BAD_ARGUMENT,
               "length must be at least {} for ruler:{}, got {}",
               options.count(growing.context(1)) + fixed, kind, options.length);
  size_t low = 1, high = 2;
  while (fits(high)) {
    if (growing.context(high).size() <= growing.context(low).size())
      throw fail(KVC_BAD_ARGUMENT,
                 "ruler:{} must have documents to fill {} tokens with beside "
                 "the question's, got 0",
                 kind, options.length);
    low = std::exchange(high, high * 2);
  }
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    (fits(middle) ? low : high) = middle;
  }
  sample.context = growing.context(low);
  return sample;
}

const std::vector<std::string> &kvc::rt::rulerKinds() {
  static const std::vector<std::string> kinds = {"niah_single_1",
                                                 "niah_single_2",
                                                 "niah_single_3",
                                                 "niah_multikey_1",
                                                 "niah_multikey_2",
                                                 "niah_multikey_3",
                                                 "niah_multivalue",
                                                 "niah_multiquery",
                                                 "vt",
                                                 "cwe",
                                                 "fwe",
                                                 "qa_1",
                                                 "qa_2"};
  return kinds;
}

std::vector<Sample> kvc::rt::makeRuler(const std::string &kind,
                                       const TaskOptions &options) {
  const auto &kinds = rulerKinds();
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
    throw fail(KVC_BAD_ARGUMENT, "ruler:KIND must be one of {}, all; got '{}'",
               fmt::join(kinds, ", "), kind);
  // Before prompts are made that no memory holds.
  if (options.length > options.positions)
    throw fail(KVC_BAD_ARGUMENT,
               "ruler:{}: length must fit into {} positions, got {}", kind,
               options.positions, options.length);
  Haystack haystack(options.haystack);
  Library library;
  if (kind == "qa_1")
    library = options.squad.empty() ? Library::madeUp(options.seed, false)
                                    : Library::squad(options.squad);
  if (kind == "qa_2")
    library = options.hotpot.empty() ? Library::madeUp(options.seed, true)
                                     : Library::hotpot(options.hotpot);
  if (kind.starts_with("qa_") && library.questions.empty())
    throw fail(KVC_BAD_ARGUMENT, "ruler:{} must have at least 1 question",
               kind);
  std::vector<Sample> samples;
  for (uint32_t i = 0; i < (options.limit ? options.limit : 100); ++i) {
    // Kinds and samples do not share their numbers.
    uint64_t seed = options.seed * 1000003 + i * 16;
    for (char c : kind)
      seed = seed * 31 + uint64_t(c);
    Growing growing = kind == "vt"    ? makeTracking(seed)
                      : kind == "cwe" ? makeCommonWords(seed)
                      : kind == "fwe" ? makeFrequentWords(seed)
                      : kind.starts_with("qa_")
                          ? makeQuestion(library, seed)
                          : makeNeedles(kind, seed, haystack);
    Sample sample = fill(std::move(growing), options, kind);
    sample.task = "ruler:" + kind;
    sample.id = formatted("ruler:{}:{}", kind, i);
    samples.push_back(std::move(sample));
  }
  return samples;
}
