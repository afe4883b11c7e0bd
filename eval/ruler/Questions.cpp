//===- Questions.cpp - questions on one document of many, or on two -------===//

#include "eval/ruler/Kinds.h"

#include "runtime/base/Failure.h"
#include "executor/io/Json.h"
#include "executor/io/MappedFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <utility>

using namespace kvc::rt;
using namespace kvc::rt::ruler;
using nlohmann::json;

static Failure badLibrary(const std::string &path, const char *rule) {
  return fail(KVC_BAD_ARGUMENT, "{}: must be {}", path, rule);
}

/// data[].paragraphs[].{context, qas[].{question, answers[].text}}
Library Library::squad(const std::string &path) try {
  json root = parseJson(readText(path));
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
        if (!question.answers.empty())
          library.questions.push_back(question);
      }
    }
  return library;
} catch (const json::exception &) {
  throw badLibrary(path, "a JSON file of SQuAD");
}

/// [].{question, answer, context[][title, sentences],
/// supporting_facts[][title]}
Library Library::hotpot(const std::string &path) try {
  json root = parseJson(readText(path));
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
Library Library::madeUp(uint64_t seed, bool twoHops) {
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
    std::string person = formatted(
        "{0} was a well-known {1}. {0} was born in {2} and spent a long life "
        "in {3}. {4}",
        name, trade, born, town, sentence(dice));
    std::string place = formatted(
        "{0} is a town on a river. Its stone bridge was built in {1}. {2}",
        town, bridge, sentence(dice));
    library.distractors.push_back(person);
    library.distractors.push_back(place);
    if (twoHops)
      library.questions.push_back(
          {formatted("In which year was the bridge built in the town where "
                     "{} lived?",
                     name),
           {bridge},
           {person, place}});
    else
      library.questions.push_back(
          {formatted("In which year was {} born?", name), {born}, {person}});
  }
  return library;
}

Growing ruler::makeQuestion(const Library &library, uint64_t seed) {
  Dice dice(seed);
  const Library::Question &question = dice.pick(library.questions);
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
      texts[i] = formatted("Document {}:\n{}", i + 1, texts[i]);
    return join(texts, "\n\n");
  };
  return result;
}
