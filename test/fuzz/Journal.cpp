//===- Journal.cpp - what a stopped evaluation has done ------------------===//

#include "test/fuzz/Target.h"

#include "runtime/base/Failure.h"
#include "eval/Evaluate.h"
#include "eval/Journal.h"
#include "eval/Results.h"

using namespace kvc;
using nlohmann::json;

/// As evaluate() goes on with it.
KVC_FUZZ_TARGET(journal) {
  const json setup = {{"format", 1},
                      {"policies", {{{"name", "p"}}}},
                      {"budgets", {"50%"}},
                      {"tasks", {"a.jsonl"}}};
  rt::Journal journal(fuzz::file(bytes, "results.json.part"), setup);
  json results;
  try {
    results = rt::summarise(setup, journal.records);
  } catch (const json::exception &) {
    return; // evaluate() has a line for it
  }
  rt::formatTable(
      results.dump(1, ' ', false, json::error_handler_t::replace));
}
