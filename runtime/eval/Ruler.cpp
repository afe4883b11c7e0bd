//===- Ruler.cpp - the task kinds of RULER, generated ---------------------===//
//
// The kinds and their parameters are those of Hsieh et al. 2024, appendix B;
// the words are our own. A prompt is filled up to the wanted length, counted by
// the model's own tokenizer; where needles lie is random, all from a seed.
//
//===----------------------------------------------------------------------===//

#include "runtime/eval/Prose.h"
#include "runtime/eval/Tasks.h"

#include "runtime/base/Failure.h"
#include "runtime/io/MappedFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>

using namespace kvc::rt;
using nlohmann::json;

namespace {

/// A sample whose context grows with a number of units of filling.
struct Growing {
  Sample sample;
  std::function<std::string(size_t units)> context;
};

std::string join(const std::vector<std::string> &parts, const char *between) {
  return fmt::format("{}", fmt::join(parts, between));
}

//===----------------------------------------------------------------------===//
// Needles in a haystack
//===----------------------------------------------------------------------===//

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

const char noise[] = "The grass is green and the sky is blue. The road goes on "
                     "and the river runs. We walk there and come back.";

std::string makeName(Name kind, Dice &dice) {
  if (kind == Name::Word)
    return dice.pick(keyWords()) + "-" + madeUpWord(dice, 3);
  if (kind == Name::Number)
    return std::to_string(1000000 + dice.below(9000000));
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                     dice.below(1ull << 32), dice.below(1 << 16),
                     dice.below(1 << 16), dice.below(1 << 16),
                     dice.below(1ull << 48));
}

std::string needle(Name value, const std::string &key,
                   const std::string &secret) {
  return fmt::format("The secret {} of {} is {}.",
                     value == Name::Uuid ? "code" : "number", key, secret);
}

class Haystack {
public:
  explicit Haystack(const std::string &file) {
    if (file.empty())
      return;
    std::string text = readText(file), sentence;
    for (char c : text) {
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
  /// The n-th sentence: of the file, again and again, or made up.
  std::string at(size_t n, Dice &dice) const {
    return sentences.empty() ? sentence(dice) : sentences[n % sentences.size()];
  }

private:
  std::vector<std::string> sentences;
};

Growing makeNeedles(const NeedleKind &kind, uint64_t seed,
                    const Haystack &haystack) {
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
      several ? fmt::format("\nWhat are all the secret {0}s of {1}? The secret "
                            "{0}s of {1} are",
                            what, of)
              : fmt::format("\nWhat is the secret {0} of {1}? The secret {0} "
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
    return fmt::format("Some secret {}s are hidden in the text below. Remember "
                       "them; you will be asked about them.\n{}",
                       what, join(lines, kind.hay == Hay::Prose ? " " : "\n"));
  };
  return result;
}

//===----------------------------------------------------------------------===//
// Variable tracking: one chain of assignments, four hops
//===----------------------------------------------------------------------===//

Growing makeTracking(uint64_t seed) {
  Dice dice(seed);
  constexpr size_t hops = 4;
  std::vector<std::string> names;
  while (names.size() < hops + 1) {
    std::string name;
    for (int i = 0; i < 5; ++i)
      name += char('A' + dice.below(26));
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  auto value = std::to_string(10000 + dice.below(90000));
  std::vector<std::string> steps{"VAR " + names[0] + " = " + value};
  for (size_t i = 1; i < names.size(); ++i)
    steps.push_back("VAR " + names[i] + " = VAR " + names[i - 1]);
  Growing result;
  result.sample.answers = names;
  result.sample.question = fmt::format(
      "\nName all variables that have the value {0}, directly or through "
      "others. {1} variables have the value {0}; they are:",
      value, names.size());
  result.sample.metric = Metric::ContainsAll;
  result.sample.maxNewTokens = 30;
  uint64_t places = dice.below(UINT64_MAX);
  result.context = [=](size_t units) {
    // Steps stay in order; where they stand is random.
    Dice grow(places);
    std::vector<size_t> at;
    for (size_t i = 0; i < steps.size(); ++i)
      at.push_back(grow.below(units + 1));
    std::sort(at.begin(), at.end());
    std::vector<std::string> lines;
    for (size_t unit = 0, step = 0; unit <= units; ++unit) {
      for (; step < steps.size() && at[step] == unit; ++step)
        lines.push_back(steps[step] + ".");
      if (unit < units)
        lines.push_back(noise);
    }
    return "The text below hides assignments to variables. Follow them.\n" +
           join(lines, "\n");
  };
  return result;
}

//===----------------------------------------------------------------------===//
// Words that are common: the ten of a list, the three of a coded text
//===----------------------------------------------------------------------===//

Growing makeCommonWords(uint64_t seed) {
  Dice dice(seed);
  constexpr size_t common = 10, often = 30, seldom = 3;
  std::vector<std::string> words;
  std::map<std::string, bool> used;
  uint64_t more = dice.below(UINT64_MAX);
  auto draw = [](Dice &from, std::map<std::string, bool> &taken) {
    for (;;) {
      std::string word = madeUpWord(from, 2 + from.below(2));
      if (!std::exchange(taken[word], true))
        return word;
    }
  };
  for (size_t i = 0; i < common; ++i)
    words.push_back(draw(dice, used));
  Growing result;
  result.sample.answers = words;
  result.sample.question = "\nWhat are the 10 most common words in the list "
                           "above? The 10 most common words are:";
  result.sample.metric = Metric::ContainsAll;
  result.sample.maxNewTokens = 120;
  result.context = [=](size_t units) {
    Dice grow(more);
    std::map<std::string, bool> taken = used;
    std::vector<std::string> list;
    for (const std::string &word : words)
      list.insert(list.end(), often, word);
    for (size_t i = 0; i < units; ++i)
      list.insert(list.end(), seldom, draw(grow, taken));
    list = grow.sample(list, list.size());
    for (size_t i = 0; i < list.size(); ++i)
      list[i] = fmt::format("{}. {}", i + 1, list[i]);
    return "Below is a numbered list of words. Some words are far more common "
           "than others. Remember the 10 most common ones.\n" +
           join(list, " ");
  };
  return result;
}

Growing makeFrequentWords(uint64_t seed) {
  Dice dice(seed);
  // Frequencies fall as rank^-2; the commonest of all is dots, no word.
  constexpr size_t ranks = 40;
  std::vector<std::string> words;
  while (words.size() < ranks) {
    std::string word = madeUpWord(dice, 3);
    if (std::find(words.begin(), words.end(), word) == words.end())
      words.push_back(word);
  }
  Growing result;
  result.sample.answers = {words[0], words[1], words[2]};
  result.sample.question =
      "\nWhat are the three most frequent words in the coded text above, dots "
      "not counted? The three most frequent words are:";
  result.sample.metric = Metric::ContainsAll;
  result.sample.maxNewTokens = 50;
  uint64_t more = dice.below(UINT64_MAX);
  result.context = [=](size_t units) {
    Dice grow(more);
    std::vector<std::string> text;
    for (size_t rank = 0; rank <= ranks; ++rank) {
      auto times = size_t(
          std::llround(double(units) * 10 / std::pow(double(rank + 1), 2)));
      text.insert(text.end(), times, rank ? words[rank - 1] : "...");
    }
    text = grow.sample(text, text.size());
    return "Read the coded text below and find out which words are most "
           "frequent. Ignore the dots.\n" +
           join(text, " ");
  };
  return result;
}

//===----------------------------------------------------------------------===//
// Questions on one document of many, or on two
//===----------------------------------------------------------------------===//

struct Question {
  std::string question;
  std::vector<std::string> answers, documents;
};

struct Library {
  std::vector<Question> questions;
  std::vector<std::string> distractors;
};

Failure badLibrary(const std::string &path, const char *rule) {
  return fail(KVC_BAD_ARGUMENT, "{}: must be {}", path, rule);
}

/// data[].paragraphs[].{context, qas[].{question, answers[].text}}
Library readSquad(const std::string &path) try {
  json root = json::parse(readText(path));
  Library library;
  for (const json &article : root.at("data"))
    for (const json &paragraph : article.at("paragraphs")) {
      library.distractors.push_back(paragraph.at("context"));
      for (const json &qa : paragraph.at("qas")) {
        if (qa.value("is_impossible", false))
          continue;
        Question question{qa.at("question"), {}, {library.distractors.back()}};
        for (const json &answer : qa.at("answers"))
          question.answers.push_back(answer.at("text"));
        library.questions.push_back(question);
      }
    }
  return library;
} catch (const json::exception &) {
  throw badLibrary(path, "a JSON file of SQuAD");
}

/// [].{question, answer, context[][title, sentences],
/// supporting_facts[][title]}
Library readHotpot(const std::string &path) try {
  json root = json::parse(readText(path));
  Library library;
  for (const json &entry : root) {
    Question question{entry.at("question"), {entry.at("answer")}, {}};
    for (const json &pair : entry.at("context")) {
      std::string text = pair.at(0).get<std::string>() + "\n";
      for (const json &line : pair.at(1))
        text += line.get<std::string>();
      bool needed = false;
      for (const json &fact : entry.at("supporting_facts"))
        needed |= fact.at(0) == pair.at(0);
      (needed ? question.documents : library.distractors).push_back(text);
    }
    library.questions.push_back(question);
  }
  return library;
} catch (const json::exception &) {
  throw badLibrary(path, "a JSON file of HotpotQA");
}

/// Made-up people: who does what where; the second hop asks through the town.
Library makeLibrary(uint64_t seed, bool twoHops) {
  Dice dice(seed);
  Library library;
  constexpr size_t people = 300;
  std::map<std::string, bool> taken;
  while (library.questions.size() < people) {
    std::string town = madeUpName(dice, 3), surname = madeUpName(dice, 4);
    if (std::exchange(taken[town], true) || std::exchange(taken[surname], true))
      continue;
    std::string name = dice.pick(firstNames()) + " " + surname;
    const std::string &trade = dice.pick(trades());
    auto born = std::to_string(1700 + dice.below(250));
    auto bridge = std::to_string(1500 + dice.below(200));
    std::string person = fmt::format(
        "{0} was a well-known {1}. {0} was born in {2} and spent a long life "
        "in {3}. {4}",
        name, trade, born, town, sentence(dice));
    std::string place = fmt::format(
        "{0} is a town on a river. Its stone bridge was built in {1}. {2}",
        town, bridge, sentence(dice));
    library.distractors.push_back(person);
    library.distractors.push_back(place);
    if (twoHops)
      library.questions.push_back(
          {fmt::format("In which year was the bridge built in the town where "
                       "{} lived?",
                       name),
           {bridge},
           {person, place}});
    else
      library.questions.push_back(
          {fmt::format("In which year was {} born?", name), {born}, {person}});
  }
  return library;
}

Growing makeQuestion(const Library &library, uint64_t seed) {
  Dice dice(seed);
  const Question &question = dice.pick(library.questions);
  Growing result;
  result.sample.answers = question.answers;
  result.sample.question =
      "\nAnswer the question from the documents above, in as few words as "
      "possible.\nQuestion: " +
      question.question + "\nAnswer:";
  result.sample.metric = Metric::ContainsAny;
  result.sample.maxNewTokens = 32;
  std::vector<std::string> others;
  for (const std::string &text : library.distractors)
    if (std::find(question.documents.begin(), question.documents.end(), text) ==
        question.documents.end())
      others.push_back(text);
  others = dice.sample(others, others.size());
  uint64_t order = dice.below(UINT64_MAX);
  result.context = [=](size_t units) {
    Dice grow(order);
    std::vector<std::string> texts = question.documents;
    for (size_t i = 0; i < units && !others.empty(); ++i)
      texts.push_back(others[i % others.size()]);
    texts = grow.sample(texts, texts.size());
    for (size_t i = 0; i < texts.size(); ++i)
      texts[i] = fmt::format("Document {}:\n{}", i + 1, texts[i]);
    return join(texts, "\n\n");
  };
  return result;
}

/// The largest context that leaves room for question and answer.
Sample fill(Growing growing, const TaskOptions &options,
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
  while (fits(high))
    low = std::exchange(high, high * 2);
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    (fits(middle) ? low : high) = middle;
  }
  sample.context = growing.context(low);
  return sample;
}

} // namespace

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
  Haystack haystack(options.haystack);
  Library library;
  if (kind == "qa_1")
    library = options.squad.empty() ? makeLibrary(options.seed, false)
                                    : readSquad(options.squad);
  if (kind == "qa_2")
    library = options.hotpot.empty() ? makeLibrary(options.seed, true)
                                     : readHotpot(options.hotpot);
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
                          : makeNeedles(needleKinds.at(kind), seed, haystack);
    Sample sample = fill(std::move(growing), options, kind);
    sample.task = "ruler:" + kind;
    sample.id = fmt::format("ruler:{}:{}", kind, i);
    samples.push_back(std::move(sample));
  }
  return samples;
}
