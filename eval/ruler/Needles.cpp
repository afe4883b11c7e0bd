//===- Needles.cpp - needles in a haystack --------------------------------===//

#include "eval/ruler/Kinds.h"

#include "runtime/base/Failure.h"
#include "executor/io/MappedFile.h"

#include <map>
#include <utility>

using namespace kvc::rt;
using namespace kvc::rt::ruler;

const char kvc::rt::ruler::noise[] =
    "The grass is green and the sky is blue. The road goes on "
    "and the river runs. We walk there and come back.";

std::string ruler::join(const std::vector<std::string> &parts,
                        const char *between) {
  return formatted("{}", fmt::join(parts, between));
}

Haystack::Haystack(const std::string &file) {
  if (file.empty())
    return;
  std::string sentence;
  for (char c : readText(file)) {
    sentence += c == '\n' ? ' ' : c;
    if (c == '.' || c == '?' || c == '!')
      sentences.push_back(std::exchange(sentence, ""));
  }
  if (sentences.empty())
    throw fail(KVC_BAD_ARGUMENT, "{}: must have at least 1 sentence, got 0",
               file);
  for (std::string &each : sentences)
    each.erase(0, each.find_first_not_of(' '));
}

std::string Haystack::at(size_t n, Dice &dice) const {
  return sentences.empty() ? sentence(dice) : sentences[n % sentences.size()];
}

namespace {

enum class Hay { Noise, Prose, Needles };
enum class Name { Word, Number, Uuid };

struct NeedleKind {
  Hay hay;
  Name key, value;
  size_t keys, values, queries;
};

const std::map<std::string, NeedleKind> needleKinds = {
    {"niah_single_1", {Hay::Noise, Name::Word, Name::Number, 1, 1, 1}},
    {"niah_single_2", {Hay::Prose, Name::Word, Name::Number, 1, 1, 1}},
    {"niah_single_3", {Hay::Prose, Name::Word, Name::Uuid, 1, 1, 1}},
    {"niah_multikey_1", {Hay::Prose, Name::Word, Name::Number, 4, 1, 1}},
    {"niah_multikey_2", {Hay::Needles, Name::Word, Name::Number, 1, 1, 1}},
    {"niah_multikey_3", {Hay::Needles, Name::Uuid, Name::Uuid, 1, 1, 1}},
    {"niah_multivalue", {Hay::Prose, Name::Word, Name::Number, 1, 4, 1}},
    {"niah_multiquery", {Hay::Prose, Name::Word, Name::Number, 4, 1, 4}},
};

std::string makeName(Name kind, Dice &dice) {
  if (kind == Name::Word)
    return dice.pick(keyWords()) + "-" + madeUpWord(dice, 3);
  if (kind == Name::Number)
    return std::to_string(1000000 + dice.below(9000000));
  return formatted("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                   dice.below(1ull << 32), dice.below(1 << 16),
                   dice.below(1 << 16), dice.below(1 << 16),
                   dice.below(1ull << 48));
}

std::string needle(Name value, const std::string &key,
                   const std::string &secret) {
  return formatted("The secret {} of {} is {}.",
                   value == Name::Uuid ? "code" : "number", key, secret);
}

} // namespace

Growing ruler::makeNeedles(const std::string &name, uint64_t seed,
                           const Haystack &haystack) {
  const NeedleKind kind = needleKinds.at(name);
  Dice dice(seed);
  std::vector<std::string> needles, keys;
  Growing result;
  for (size_t i = 0; i < kind.keys; ++i) {
    keys.push_back(makeName(kind.key, dice));
    for (size_t v = 0; v < kind.values; ++v) {
      std::string secret = makeName(kind.value, dice);
      needles.push_back(needle(kind.value, keys.back(), secret));
      if (i < kind.queries)
        result.sample.answers.push_back(secret);
    }
  }
  keys.resize(kind.queries);
  std::string what = kind.value == Name::Uuid ? "code" : "number";
  bool several = result.sample.answers.size() > 1;
  std::string of = join(keys, ", ");
  result.sample.question =
      several ? formatted("\nWhat are all the secret {0}s of {1}? The secret "
                          "{0}s of {1} are",
                          what, of)
              : formatted("\nWhat is the secret {0} of {1}? The secret {0} "
                          "of {1} is",
                          what, of);
  result.sample.metric = Metric::ContainsAll;
  result.sample.maxNewTokens = 128;
  uint64_t hay = dice.below(UINT64_MAX);
  result.context = [=, &haystack](size_t units) {
    Dice grow(hay);
    std::vector<std::string> lines;
    for (size_t i = 0; i < units; ++i)
      lines.push_back(kind.hay == Hay::Noise ? noise
                      : kind.hay == Hay::Prose
                          ? haystack.at(i, grow)
                          : needle(kind.value, makeName(kind.key, grow),
                                   makeName(kind.value, grow)));
    Dice places(hay + 1);
    for (const std::string &each : needles)
      lines.insert(lines.begin() + ptrdiff_t(places.below(lines.size() + 1)),
                   each);
    return formatted("Some secret {}s are hidden in the text below. Remember "
                     "them; you will be asked about them.\n{}",
                     what, join(lines, kind.hay == Hay::Prose ? " " : "\n"));
  };
  return result;
}
