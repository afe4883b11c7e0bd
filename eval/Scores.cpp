//===- Scores.cpp - a prediction against a sample's answers ---------------===//

#include "eval/Scores.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

using namespace kvc::rt;

namespace {

using Words = std::vector<std::string>;

std::string lower(std::string text) {
  for (char &c : text)
    c = char(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

Words words(const std::string &text) {
  std::istringstream stream(text);
  Words result;
  for (std::string word; stream >> word;)
    result.push_back(word);
  return result;
}

/// Lower case, no punctuation, no articles.
Words normalised(const std::string &text) {
  std::string kept;
  for (char c : lower(text))
    if (!std::ispunct(static_cast<unsigned char>(c)))
      kept += c;
  Words all = words(kept);
  std::erase_if(all, [](const std::string &word) {
    return word == "a" || word == "an" || word == "the";
  });
  return all;
}

std::string trimmed(const std::string &text) {
  size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos)
    return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

Words numbersIn(const std::string &text) {
  Words numbers;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && std::isdigit(uint8_t(text[end])))
      ++end;
    if (end > i)
      numbers.push_back(text.substr(i, end - i));
    i = end + 1;
  }
  return numbers;
}

double shareEqual(const Words &numbers, const std::string &want) {
  if (numbers.empty())
    return 0;
  return double(std::count(numbers.begin(), numbers.end(), want)) /
         double(numbers.size());
}

/// "Paragraph 12" names the paragraph.
double retrieval(const std::string &prediction, const std::string &answer) {
  size_t at = answer.find("Paragraph ");
  Words id = at == std::string::npos ? Words() : numbersIn(answer.substr(at));
  return id.empty() ? 0 : shareEqual(numbersIn(prediction), id.front());
}

/// Classes that are part of the right one's name do not count.
double classification(const std::string &prediction, const std::string &answer,
                      const Words &classes) {
  Words named;
  for (const std::string &name : classes)
    if (contains(prediction, name) &&
        (name == answer || !contains(answer, name)))
      named.push_back(name);
  bool right = std::find(named.begin(), named.end(), answer) != named.end();
  return right ? 1.0 / double(named.size()) : 0;
}

/// LCS lengths of all prefixes, row-major [x + 1, y + 1].
template <typename Sequence>
std::vector<uint32_t> lcsTable(const Sequence &x, const Sequence &y) {
  size_t width = y.size() + 1;
  std::vector<uint32_t> table((x.size() + 1) * width);
  for (size_t i = 1; i <= x.size(); ++i)
    for (size_t j = 1; j < width; ++j)
      table[i * width + j] =
          x[i - 1] == y[j - 1]
              ? table[(i - 1) * width + j - 1] + 1
              : std::max(table[(i - 1) * width + j], table[i * width + j - 1]);
  return table;
}

/// The words of a longest common subsequence.
std::set<std::string> commonWords(const Words &x, const Words &y) {
  std::vector<uint32_t> table = lcsTable(x, y);
  size_t width = y.size() + 1, i = x.size(), j = y.size();
  std::set<std::string> common;
  while (i && j)
    if (x[i - 1] == y[j - 1]) {
      common.insert(x[i - 1]);
      --i, --j;
    } else if (table[(i - 1) * width + j] > table[i * width + j - 1]) {
      --i;
    } else {
      --j;
    }
  return common;
}

std::vector<Words> sentences(const std::string &text) {
  std::vector<Words> result;
  std::istringstream stream(text);
  for (std::string sentence; std::getline(stream, sentence, '.');)
    if (!sentence.empty())
      result.push_back(words(sentence));
  return result;
}

/// The first line that is neither a comment nor a fence, as code is judged.
std::string firstCodeLine(const std::string &text) {
  std::istringstream stream(text.substr(
      std::min(text.size(), text.find_first_not_of('\n') == std::string::npos
                                ? text.size()
                                : text.find_first_not_of('\n'))));
  for (std::string line; std::getline(stream, line);)
    if (!contains(line, "`") && !contains(line, "#") && !contains(line, "//"))
      return line;
  return "";
}

} // namespace

double kvc::rt::wordF1(const std::string &prediction,
                       const std::string &answer) {
  Words got = normalised(prediction), want = normalised(answer);
  std::map<std::string, int> left;
  for (const std::string &word : want)
    ++left[word];
  double same = 0;
  for (const std::string &word : got)
    if (auto it = left.find(word); it != left.end() && it->second-- > 0)
      ++same;
  if (same == 0)
    return 0;
  double precision = same / double(got.size()),
         recall = same / double(want.size());
  return 2 * precision * recall / (precision + recall);
}

double kvc::rt::rougeL(const std::string &prediction,
                       const std::string &answer) {
  std::vector<Words> got = sentences(prediction), want = sentences(answer);
  std::set<std::string> gotWords, wantWords, common;
  for (const Words &sentence : got)
    gotWords.insert(sentence.begin(), sentence.end());
  for (const Words &sentence : want)
    wantWords.insert(sentence.begin(), sentence.end());
  for (const Words &reference : want)
    for (const Words &sentence : got)
      common.merge(commonWords(reference, sentence));
  if (common.empty())
    return 0;
  double recall = double(common.size()) / double(wantWords.size());
  double precision = double(common.size()) / double(gotWords.size());
  return 2 * precision * recall / (precision + recall + 1e-8);
}

double kvc::rt::editSimilarity(const std::string &prediction,
                               const std::string &answer) {
  size_t total = prediction.size() + answer.size();
  if (total == 0)
    return 0;
  double common = lcsTable(prediction, answer).back();
  return std::nearbyint(100 * 2 * common / double(total)) / 100;
}

double kvc::rt::score(const Sample &sample, const std::string &full) {
  std::string prediction = full;
  if (sample.firstLine) {
    size_t start = prediction.find_first_not_of('\n');
    prediction = start == std::string::npos ? "" : prediction.substr(start);
    prediction = prediction.substr(0, prediction.find('\n'));
  }
  auto one = [&](const std::string &answer) -> double {
    switch (sample.metric) {
    case Metric::Exact:
      return prediction == answer;
    case Metric::ContainsAll:
    case Metric::ContainsAny:
      return contains(lower(prediction), lower(answer));
    case Metric::F1:
      return wordF1(prediction, answer);
    case Metric::RougeL:
      return rougeL(prediction, answer);
    case Metric::Classification:
      return classification(prediction, answer, sample.classes);
    case Metric::Retrieval:
      return retrieval(prediction, answer);
    case Metric::Count:
      return shareEqual(numbersIn(prediction), trimmed(answer));
    case Metric::EditSimilarity:
      return editSimilarity(firstCodeLine(prediction), answer);
    case Metric::LogLikelihood:
      return 0;
    }
    return 0;
  };
  double best = 0, sum = 0;
  for (const std::string &answer : sample.answers) {
    double x = one(answer);
    best = std::max(best, x);
    sum += x;
  }
  return sample.metric == Metric::ContainsAll
             ? sum / double(sample.answers.size())
             : best;
}
