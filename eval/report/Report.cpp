//===- Report.cpp - an evaluation as one page of HTML ---------------------===//

#include "eval/report/Report.h"

#include "runtime/base/Failure.h"
#include "executor/io/Json.h"
#include "executor/io/MappedFile.h"

#include <nlohmann/json.hpp>

#include <set>

using namespace kvc::rt;
using nlohmann::json;

/// report.html, made a string by the build.
static const char page[] =
#include "report.html.inc"
    ;

namespace {

/// Looks at what the page reads, so that none of it is missing there.
class Check {
public:
  explicit Check(const std::string &path) : path(path) {}

  /// JSON has no NaN; null stands for it.
  enum class Kind { Text, Number, NumberOrNull, List, Object };
  struct Field {
    const char *name;
    Kind kind;
  };

  Failure bad(const std::string &place, const char *rule,
              const json &value) const {
    return fail(KVC_BAD_ARGUMENT, "{}: {} must be {}, got {}", path, place,
                rule, quote(value));
  }
  void is(const json &value, const std::string &place, Kind kind) const {
    bool right = kind == Kind::Text     ? value.is_string()
                 : kind == Kind::List   ? value.is_array()
                 : kind == Kind::Object ? value.is_object()
                 : kind == Kind::Number ? value.is_number()
                                        : value.is_number() || value.is_null();
    static const char *const rules[] = {
        "a text", "a number", "a number or null", "a list", "an object"};
    if (!right)
      throw bad(place, rules[size_t(kind)], value);
  }
  void has(const json &object, const std::string &place,
           std::initializer_list<Field> fields) const {
    is(object, place, Kind::Object);
    for (auto [name, kind] : fields) {
      if (!object.contains(name))
        throw fail(KVC_BAD_ARGUMENT, "{}: {}.{} is missing", path, place, name);
      is(object[name], formatted("{}.{}", place, name), kind);
    }
  }
  template <typename Body>
  void each(const json &list, const std::string &place, Body body) const {
    is(list, place, Kind::List);
    for (size_t i = 0; i < list.size(); ++i)
      body(list[i], formatted("{}[{}]", place, i));
  }
  void every(const json &list, const std::string &place, Kind kind) const {
    each(list, place, [&](const json &value, const std::string &at) {
      is(value, at, kind);
    });
  }

private:
  const std::string &path;
};

} // namespace

static json readResults(const std::string &path) {
  json results = parseJson(readText(path));
  if (!results.is_object() || !results.contains("format"))
    throw fail(KVC_BAD_ARGUMENT, "{}: must be a results file of kvc-run eval",
               path);
  Check check(path);
  using Kind = Check::Kind;
  if (results["format"] != 1)
    throw check.bad("format", "1", results["format"]);
  for (const char *field :
       {"model", "policies", "budgets", "scores", "costs", "layers"})
    if (!results.contains(field))
      throw fail(KVC_BAD_ARGUMENT, "{}: {} is missing", path, field);
  check.has(results["model"], "model",
            {{"path", Kind::Text},
             {"architecture", Kind::Text},
             {"layers", Kind::Number},
             {"q_heads", Kind::Number},
             {"kv_heads", Kind::Number},
             {"head_dim", Kind::Number}});
  check.every(results["budgets"], "budgets", Kind::Text);
  check.each(results["policies"], "policies",
             [&](const json &policy, const std::string &at) {
               check.has(policy, at, {{"name", Kind::Text}});
             });
  check.each(results["scores"], "scores",
             [&](const json &score, const std::string &at) {
               check.has(score, at,
                         {{"task", Kind::Text},
                          {"mode", Kind::Text},
                          {"policy", Kind::Text},
                          {"budget", Kind::Text},
                          {"metric", Kind::Text},
                          {"n", Kind::Number},
                          {"mean", Kind::NumberOrNull},
                          {"error", Kind::NumberOrNull}});
             });
  check.each(results["costs"], "costs",
             [&](const json &cost, const std::string &at) {
               check.has(cost, at,
                         {{"policy", Kind::Text},
                          {"budget", Kind::Text},
                          {"cache_bytes", Kind::Number},
                          {"prefill_seconds", Kind::Number},
                          {"evict_seconds", Kind::Number},
                          {"decode_seconds", Kind::Number}});
             });
  auto layer = [&](const json &object, const std::string &at) {
    check.has(object, at,
              {{"coverage", Kind::NumberOrNull},
               {"perturbation", Kind::NumberOrNull},
               {"budgets", Kind::List},
               {"retention", Kind::List}});
    check.every(object["budgets"], at + ".budgets", Kind::NumberOrNull);
    check.each(object["retention"], at + ".retention",
               [&](const json &head, const std::string &where) {
                 check.every(head, where, Kind::NumberOrNull);
               });
  };
  check.each(results["layers"], "layers",
             [&](const json &entry, const std::string &at) {
               check.has(entry, at,
                         {{"policy", Kind::Text},
                          {"budget", Kind::Text},
                          {"layers", Kind::List}});
               check.each(entry["layers"], at + ".layers", layer);
             });
  results.erase("samples"); // predictions would be most of the page
  return results;
}

/// What distinguishes an entry of a list.
static std::string keyOf(const json &entry) {
  std::string key;
  for (const char *field : {"name", "task", "mode", "policy", "budget"})
    key += entry.contains(field) && entry[field].is_string()
               ? entry[field].get<std::string>() + "\n"
               : "\n";
  return key;
}

static void merge(json &into, const json &more, const std::string &path) {
  for (const char *field : {"model", "budgets"})
    if (into[field] != more[field])
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: {} must be that of the first file, got {}", path, field,
                 quote(more[field]));
  for (const char *field : {"policies", "scores", "costs", "layers"}) {
    std::set<std::string> known;
    for (const json &entry : into[field])
      known.insert(keyOf(entry));
    for (const json &entry : more[field])
      if (known.insert(keyOf(entry)).second)
        into[field].push_back(entry);
  }
}

std::string kvc::rt::formatReport(const std::vector<std::string> &files) {
  json results = readResults(files.front());
  for (size_t i = 1; i < files.size(); ++i)
    merge(results, readResults(files[i]), files[i]);
  std::string data =
      results.dump(-1, ' ', false, json::error_handler_t::replace);
  // "</script>" inside a text would end the data.
  for (size_t at = 0; (at = data.find("</", at)) != std::string::npos; at += 3)
    data.replace(at, 2, "<\\/");
  std::string html = page;
  const std::string mark = "%DATA%";
  html.replace(html.find(mark), mark.size(), data);
  return html;
}
