//===- Journal.cpp - what a long run has done so far ----------------------===//

#include "eval/Journal.h"

#include "runtime/base/Failure.h"
#include "executor/io/Json.h"
#include "executor/io/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

using namespace kvc::rt;
using nlohmann::json;

static std::string dump(const json &object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Journal::Journal(const std::string &path, const json &setup) : path(path) {
  std::string text = std::filesystem::exists(path) ? readText(path) : "";
  // As it comes back from the file: names there need not have been UTF-8.
  const json expected = json::parse(dump(setup));
  auto notOurs = [&] {
    return fail(KVC_BAD_ARGUMENT,
                "{} must hold what an earlier run wrote; remove it or write "
                "other results",
                path);
  };
  std::string differs; // what the file's setup has otherwise
  size_t whole = 0;
  for (size_t end; (end = text.find('\n', whole)) != std::string::npos;
       whole = end + 1) {
    json line = parseJson(std::string_view(text).substr(whole, end - whole));
    if (whole == 0) {
      if (!line.is_object() || !line.contains("format"))
        throw notOurs();
      for (auto &[name, value] : expected.items())
        if (line.value(name, json()) != value)
          differs = name;
      continue;
    }
    if (!line.is_object() || !line.contains("key") || !line["key"].is_string())
      break;
    records[line["key"]] = line;
  }
  if (!differs.empty() && !records.empty())
    throw fail(KVC_BAD_ARGUMENT,
               "{} is of a run with another setup ({}); remove it or write "
               "other results",
               path, differs);
  // A stop in the middle of the first line leaves its beginning.
  if (whole == 0 && !dump(setup).starts_with(text))
    throw notOurs();
  if (!differs.empty())
    whole = 0; // that run has done nothing
  if (!text.empty())
    std::filesystem::resize_file(path, whole);
  file.open(path, std::ios::app);
  if (whole == 0)
    file << dump(setup) << "\n" << std::flush;
  if (!file)
    throw fail(KVC_BAD_ARGUMENT, "cannot write {}: {}", path,
               std::strerror(errno));
}

void Journal::add(const std::string &key, json record) {
  record["key"] = key;
  file << dump(record) << "\n" << std::flush;
  if (!file)
    throw fail(KVC_BAD_ARGUMENT, "cannot write {}: {}", path,
               std::strerror(errno));
  records[key] = std::move(record);
}

void Journal::remove() {
  file.close();
  std::filesystem::remove(path);
}
