//===- Journal.h - what a long run has done so far ------------------------===//
//
// A file of JSON lines: the run's setup, then a record per finished sample,
// each written at once. A run that was stopped goes on behind the last whole
// line.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EVAL_JOURNAL_H
#define KVC_EVAL_JOURNAL_H

#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <string>

namespace kvc::rt {

class Journal {
public:
  /// Throws Failure where the file is of another setup or cannot be written.
  Journal(const std::string &path, const nlohmann::json &setup);

  bool has(const std::string &key) const { return records.contains(key); }
  void add(const std::string &key, nlohmann::json record);
  void remove();

  /// By key.
  std::map<std::string, nlohmann::json> records;

private:
  std::string path;
  std::ofstream file;
};

} // namespace kvc::rt

#endif // KVC_EVAL_JOURNAL_H
