//===- Tasks.cpp - the samples that a task's name stands for
//---------------===//

#include "eval/Tasks.h"

#include "runtime/base/Failure.h"
#include "executor/io/Json.h"
#include "executor/io/MappedFile.h"
#include "executor/model/Utf8.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <sstream>

using namespace kvc::rt;
using nlohmann::json;

namespace {

/// How LongBench's scripts score a dataset.
struct Dataset {
  Metric metric;
  bool firstLine = false;
};
const std::map<std::string, Dataset> datasets = {
    {"narrativeqa", {Metric::F1}},
    {"qasper", {Metric::F1}},
    {"multifieldqa_en", {Metric::F1}},
    {"hotpotqa", {Metric::F1}},
    {"2wikimqa", {Metric::F1}},
    {"musique", {Metric::F1}},
    {"gov_report", {Metric::RougeL}},
    {"qmsum", {Metric::RougeL}},
    {"multi_news", {Metric::RougeL}},
    {"trec", {Metric::Classification, true}},
    {"triviaqa", {Metric::F1, true}},
    {"samsum", {Metric::RougeL, true}},
    {"passage_retrieval_en", {Metric::Retrieval}},
    {"passage_count", {Metric::Count}},
    {"lcc", {Metric::EditSimilarity}},
    {"repobench-p", {Metric::EditSimilarity}},
};

class Reader {
public:
  Reader(const std::string &path, const TaskOptions &options)
      : path(path), options(options) {}

  std::vector<Sample> read() {
    std::istringstream lines(readText(path));
    std::vector<Sample> samples;
    std::map<std::string, uint32_t> seen;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string::npos)
        continue;
      object = parseJson(line);
      if (!object.is_object())
        throw fail(KVC_BAD_ARGUMENT, "{}:{}: must be a JSON object, got '{}'",
                   path, number, excerpt(line));
      Sample sample = object.contains("dataset") ? longbench() : needle();
      sample.id = formatted("{}:{}", path, number);
      if (!options.limit || seen[sample.task]++ < options.limit)
        samples.push_back(std::move(sample));
    }
    if (samples.empty())
      throw fail(KVC_BAD_ARGUMENT, "{}: must have at least 1 prompt, got 0",
                 path);
    return samples;
  }

private:
  const std::string &path;
  const TaskOptions &options;
  json object;
  size_t number = 0; // of the line

  Failure bad(const std::string &field, const char *rule,
              const json &value) const {
    return fail(KVC_BAD_ARGUMENT, "{}:{}: {} must be {}, got {}", path, number,
                field, rule, quote(value));
  }
  std::string text(const char *field) const {
    if (!object.contains(field))
      throw fail(KVC_BAD_ARGUMENT, "{}:{}: {} is missing", path, number, field);
    if (!object[field].is_string())
      throw bad(field, "a text", object[field]);
    return object[field];
  }
  std::vector<std::string> texts(const char *field) const {
    if (!object.contains(field) || !object[field].is_array())
      throw bad(field, "a list of texts", object.value(field, json()));
    std::vector<std::string> result;
    for (const json &item : object[field]) {
      if (!item.is_string())
        throw bad(field, "a list of texts", object[field]);
      result.push_back(item);
    }
    return result;
  }

  Sample needle() const {
    Sample sample;
    sample.task = text("task");
    sample.context = text("context");
    sample.question = text("question");
    sample.answers = {text("answer")};
    if (sample.answers[0].empty())
      throw bad("answer", "a text that is not empty", "");
    return sample;
  }

  Sample longbench() {
    Sample sample;
    sample.task = text("dataset");
    auto it = datasets.find(sample.task);
    if (it == datasets.end())
      throw bad("dataset",
                "one of LongBench's English or code datasets (words of other "
                "languages are not segmented)",
                sample.task);
    sample.metric = it->second.metric;
    sample.firstLine = it->second.firstLine;
    sample.answers = texts("answers");
    if (sample.answers.empty())
      throw bad("answers", "at least one", object["answers"]);
    if (sample.metric == Metric::Classification)
      sample.classes = texts("all_classes");
    std::string prompt = config("dataset2prompt.json", sample.task,
                                json("{context}\n\n{input}\n"));
    sample.maxNewTokens = config("dataset2maxlen.json", sample.task, json(64));
    size_t at = prompt.find("{context}"), behind = at + 9;
    if (at == std::string::npos)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}/dataset2prompt.json: {} must have {{context}}, got '{}'",
                 options.longbench, sample.task, excerpt(prompt));
    sample.context = withInput(prompt.substr(0, at)) + text("context");
    sample.question = withInput(prompt.substr(behind));
    return sample;
  }

  std::string withInput(std::string part) const {
    std::string input = text("input");
    if (size_t at = part.find("{input}"); at != std::string::npos)
      part.replace(at, 7, input);
    return part;
  }

  static bool isLength(const json &value) {
    return value.is_number_unsigned() && value != 0 &&
           value.get<uint64_t>() <= 1 << 20;
  }

  /// LongBench's own prompts and lengths, where the user has them.
  json config(const char *file, const std::string &dataset,
              const json &absent) {
    if (options.longbench.empty())
      return absent;
    std::string place = options.longbench + "/" + file;
    json &whole = configs[file];
    if (whole.is_null())
      whole = parseJson(readText(place));
    if (!whole.is_object() || !whole.contains(dataset) ||
        (absent.is_string() ? !whole[dataset].is_string()
                            : !isLength(whole[dataset])))
      throw fail(KVC_BAD_ARGUMENT, "{}: {} must be {}", place, dataset,
                 absent.is_string() ? "a text"
                                    : "a whole number of 1 to 1048576");
    return whole[dataset];
  }
  std::map<std::string, json> configs;
};

} // namespace

std::vector<Sample> kvc::rt::loadJsonLines(const std::string &path,
                                           const TaskOptions &options) {
  return Reader(path, options).read();
}

std::vector<Sample> kvc::rt::loadText(const std::string &path,
                                      const TaskOptions &options) {
  std::string text = readText(path);
  std::vector<Sample> samples;
  if (size_t bad = findBadUtf8(text); bad != std::string::npos)
    throw fail(KVC_BAD_ARGUMENT, "{}: must be UTF-8, got byte 0x{:02x} at {}",
               path, uint8_t(text[bad]), bad);
  auto inside = [&](size_t i) { // a character
    return i < text.size() && (uint8_t(text[i]) & 0xc0) == 0x80;
  };
  uint32_t most = options.length / 2;
  size_t at = 0;
  // The longest piece of at most so many tokens; it ends in front of a space
  // where it has one, so that words stay whole.
  auto piece = [&]() {
    // Tokens longer than 16 bytes are rare.
    size_t low = at, high = std::min(text.size(), at + size_t(16) * most) + 1;
    while (high - low > 1) {
      size_t middle = low + (high - low) / 2;
      while (inside(middle))
        ++middle;
      if (middle >= high) {
        for (middle = low + 1; inside(middle);)
          ++middle;
        if (middle >= high)
          break;
      }
      bool fits = options.count(text.substr(at, middle - at)) <= most;
      (fits ? low : high) = middle;
    }
    if (low < text.size())
      if (size_t space = text.rfind(' ', low);
          space != std::string::npos && space > at)
        low = space;
    std::string result = text.substr(at, low - at);
    at = low;
    return result;
  };
  while (at < text.size() &&
         (!options.limit || samples.size() < options.limit)) {
    Sample sample;
    sample.task = "text:" + std::filesystem::path(path).filename().string();
    sample.id = formatted("{}:byte {}", path, at);
    sample.metric = Metric::LogLikelihood;
    sample.context = piece();
    sample.answers = {piece()};
    if (sample.context.empty() || sample.answers[0].empty())
      break;
    samples.push_back(std::move(sample));
  }
  if (samples.empty())
    throw fail(KVC_BAD_ARGUMENT,
               "{}: must have more than {} tokens to measure a perplexity",
               path, options.length / 2);
  return samples;
}

std::string kvc::rt::fileOfTask(const std::string &name) {
  if (name.starts_with("ruler:"))
    return "";
  return name.starts_with("text:") ? name.substr(5) : name;
}

std::vector<Sample> kvc::rt::loadTask(const std::string &name,
                                      const TaskOptions &options) {
  if (name.starts_with("text:"))
    return loadText(fileOfTask(name), options);
  if (name.starts_with("ruler:")) {
    std::string kind = name.substr(6);
    if (kind != "all")
      return makeRuler(kind, options);
    std::vector<Sample> all;
    for (const std::string &each : rulerKinds())
      for (Sample &sample : makeRuler(each, options))
        all.push_back(std::move(sample));
    return all;
  }
  return loadJsonLines(name, options);
}
