//===- Report.cpp - an evaluation as one page of HTML ---------------------===//

#include "runtime/report/Report.h"

#include "runtime/base/Failure.h"
#include "runtime/io/MappedFile.h"

#include <nlohmann/json.hpp>

#include <set>

using namespace kvc::rt;
using nlohmann::json;

/// report.html, made a string by the build.
static const char page[] =
#include "report.html.inc"
    ;

static json readResults(const std::string &path) {
  json results = json::parse(readText(path), nullptr, false);
  if (!results.is_object() || results.value("format", 0) != 1)
    throw fail(KVC_BAD_ARGUMENT, "{}: must be a results file of kvc-run eval",
               path);
  for (const char *field : {"policies", "budgets", "scores", "costs", "layers"})
    if (!results.contains(field) || !results[field].is_array())
      throw fail(KVC_BAD_ARGUMENT, "{}: {} must be a list", path, field);
  if (!results.contains("model") || !results["model"].is_object())
    throw fail(KVC_BAD_ARGUMENT, "{}: model must be an object", path);
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
                 more[field].dump().substr(0, 80));
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
