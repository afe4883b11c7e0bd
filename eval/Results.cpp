//===- Results.cpp - means, errors and the table of an evaluation ---------===//

#include "eval/Results.h"

#include "runtime/base/Failure.h"
#include "executor/io/Json.h"
#include "eval/Evaluate.h"

#include <algorithm>
#include <cmath>

using namespace kvc::rt;
using nlohmann::json;

namespace {

struct Mean {
  double sum = 0, squares = 0;
  uint64_t n = 0;

  void add(double x) {
    sum += x;
    squares += x * x;
    ++n;
  }
  double mean() const { return sum / double(n); }
  /// Standard error of the mean.
  double error() const {
    double variance = squares / double(n) - mean() * mean();
    return n > 1 ? std::sqrt(std::max(0.0, variance) / double(n - 1)) : 0;
  }
};

/// Adds numbers, and lists of them number by number; null stays null.
void addTo(json &sum, const json &more) {
  if (sum.is_null()) {
    sum = more;
  } else if (sum.is_array()) {
    for (size_t i = 0; i < sum.size() && i < more.size(); ++i)
      addTo(sum[i], more[i]);
  } else if (sum.is_object()) {
    for (auto &[name, value] : sum.items())
      addTo(value, more.value(name, json()));
  } else if (more.is_number()) {
    sum = sum.get<double>() + more.get<double>();
  }
}

void divide(json &sum, double count) {
  if (sum.is_structured())
    for (json &item : sum)
      divide(item, count);
  else if (sum.is_number())
    sum = sum.get<double>() / count;
}

} // namespace

json kvc::rt::summarise(const json &setup,
                        const std::map<std::string, json> &records) {
  using Key = std::vector<std::string>;
  std::map<Key, Mean> scores;
  std::map<Key, std::map<std::string, Mean>> costs;
  std::map<Key, std::pair<json, double>> layers;
  std::map<std::string, bool> perplexity;
  json samples = json::array();
  for (const auto &[key, record] : records) {
    json cells = json::array();
    perplexity[record.at("task")] = record.at("perplexity");
    for (const json &cell : record.at("cells")) {
      Key cost{cell.at("policy"), cell.at("budget")};
      scores[{record.at("task"), record.at("mode"), cell.at("policy"),
              cell.at("budget")}]
          .add(cell.at("score"));
      for (const char *name : {"cache_bytes", "cache_bytes_peak",
                               "evict_seconds", "decode_seconds"})
        costs[cost][name].add(cell.at(name));
      costs[cost]["prefill_seconds"].add(record.at("prefill_seconds"));
      if (cell.contains("layers")) {
        auto &[sum, count] = layers[cost];
        addTo(sum, cell.at("layers"));
        ++count;
      }
      json own = cell;
      own.erase("layers");
      cells.push_back(std::move(own));
    }
    samples.push_back({{"key", key},
                       {"task", record.at("task")},
                       {"mode", record.at("mode")},
                       {"tokens", record.at("tokens")},
                       {"prefill_seconds", record.at("prefill_seconds")},
                       {"cells", std::move(cells)}});
  }
  json result = setup;
  result["scores"] = result["costs"] = result["layers"] = json::array();
  for (const auto &[key, mean] : scores) {
    bool text = perplexity[key[0]];
    result["scores"].push_back(
        {{"task", key[0]},
         {"mode", key[1]},
         {"policy", key[2]},
         {"budget", key[3]},
         {"n", mean.n},
         {"metric", text ? "perplexity" : "score"},
         {"mean", text ? std::exp(-mean.mean()) : mean.mean()},
         {"error", mean.error()}});
  }
  for (const auto &[key, means] : costs) {
    json cost = {{"policy", key[0]}, {"budget", key[1]}};
    for (const auto &[name, mean] : means)
      cost[name] = mean.mean();
    result["costs"].push_back(cost);
  }
  for (auto &[key, sum] : layers) {
    divide(sum.first, sum.second);
    result["layers"].push_back({{"policy", key[0]},
                                {"budget", key[1]},
                                {"layers", std::move(sum.first)}});
  }
  result["samples"] = std::move(samples);
  return result;
}

std::string kvc::rt::formatTable(const std::string &text) {
  json results = parseJson(text);
  if (!results.is_object() || !results.contains("scores") ||
      !results.contains("budgets"))
    throw fail(KVC_BAD_ARGUMENT, "results must be a file of kvc-run eval");
  // Rows in the order of the run: task and mode, then policies.
  std::vector<std::string> policies;
  for (const json &policy : results["policies"])
    policies.push_back(policy["name"]);
  std::map<std::pair<std::string, std::string>, std::map<std::string, json>>
      groups;
  size_t width = 6;
  for (const json &score : results["scores"]) {
    std::string policy = score["policy"], budget = score["budget"];
    groups[{score["task"], score["mode"]}][policy + " " + budget] = score;
    width = std::max(width, policy.size());
  }
  std::string table;
  for (const auto &[group, cells] : groups) {
    // A score that is no number has become null.
    auto number = [&](const std::string &cell) -> std::string {
      auto it = cells.find(cell);
      if (it == cells.end() || !it->second["mean"].is_number())
        return "-";
      double mean = it->second["mean"];
      return it->second["metric"] == "perplexity"
                 ? formatted("{:.2f}", mean)
                 : formatted("{:.1f}", 100 * mean);
    };
    const json &any = cells.begin()->second;
    table +=
        formatted("{}, question-{}, n = {}, {}, full cache {}\n", group.first,
                  group.second, any["n"].get<uint64_t>(),
                  any["metric"] == "perplexity" ? "perplexity" : "per cent",
                  number("full 100%"));
    table += formatted("  {:<{}}", "policy", width);
    for (const json &budget : results["budgets"])
      table += formatted(" {:>7}", budget.get<std::string>());
    table += "\n";
    for (const std::string &policy : policies) {
      table += formatted("  {:<{}}", policy, width);
      for (const json &budget : results["budgets"])
        table += formatted(" {:>7}",
                           number(policy + " " + budget.get<std::string>()));
      table += "\n";
    }
    table += "\n";
  }
  return table;
}
