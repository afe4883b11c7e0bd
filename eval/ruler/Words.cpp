//===- Words.cpp - variables to follow, words to count --------------------===//

#include "eval/ruler/Kinds.h"

#include "runtime/base/Failure.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

using namespace kvc::rt;
using namespace kvc::rt::ruler;

Growing ruler::makeTracking(uint64_t seed) {
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
  result.sample.question = formatted(
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

Growing ruler::makeCommonWords(uint64_t seed) {
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
      list[i] = formatted("{}. {}", i + 1, list[i]);
    return "Below is a numbered list of words. Some words are far more common "
           "than others. Remember the 10 most common ones.\n" +
           join(list, " ");
  };
  return result;
}

Growing ruler::makeFrequentWords(uint64_t seed) {
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
