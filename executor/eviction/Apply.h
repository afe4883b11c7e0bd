//===- Apply.h - one policy on given tensors, no model --------------------===//

#ifndef KVC_EXECUTOR_EVICTION_APPLY_H
#define KVC_EXECUTOR_EVICTION_APPLY_H

#include <cstdint>
#include <string>
#include <vector>

namespace kvc::rt {

struct ApplyOptions {
  std::string policy;
  std::vector<std::string> inputs, outputs; // as many outputs as inputs
  std::string budget, keep;                 // exactly one is given
  std::string target;                       // "", "host", "cuda", "ptx"
  std::string table;
  std::string metrics;         // file for metrics, JSON; empty: none
  uint32_t metricsQueries = 1; // of the last so many queries
  bool scores = false;
  bool state = false;   // of prompts too: positions, and what rows carry
  uint32_t page = 0;    // slots of a page; 0: the cache is not paged
  bool inPlace = false; // kept rows stay in the slots or pages of the cache
  bool tail = false;    // and end where its rows ended
  bool profile = false; // print what a GPU would take; target ptx
  std::string card = "h100";
  uint64_t seed = 0; // order of emulated threads, 0 = ascending
};

/// Reads all inputs as one batch, evicts layer by layer, writes all outputs or
/// none. Returns what should be said on stderr. Throws Failure.
std::vector<std::string> apply(const ApplyOptions &options);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_APPLY_H
