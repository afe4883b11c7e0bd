//===- Described.cpp ------------------------------------------------------===//

#include "executor/cost/Described.h"

#include "runtime/base/DType.h"
#include "runtime/base/Format.h"

#include <nlohmann/json.hpp>

using namespace kvc::rt;
using nlohmann::ordered_json;

std::string kvc::rt::inWords(const kvc_plan &plan, uint32_t kept) {
  const kvc_plan_options &limits = plan.options;
  return formatted("{}: {} tokens, {} kept a head, {} KV heads, {} query "
                   "heads, head size {}, {}",
                   plan.module.manifest.policy, limits.max_tokens, kept,
                   limits.kv_heads, limits.q_heads, limits.head_dim,
                   dtypeName(limits.dtype));
}

ordered_json kvc::rt::inNumbers(const kvc_plan &plan, uint32_t kept) {
  const kvc_plan_options &limits = plan.options;
  return {{"policy", plan.module.manifest.policy},
          {"tokens", limits.max_tokens},
          {"budget", kept},
          {"kv_heads", limits.kv_heads},
          {"q_heads", limits.q_heads},
          {"head_dim", limits.head_dim},
          {"dtype", dtypeName(limits.dtype)},
          {"lse_given", limits.lse_given != 0}};
}

std::string kvc::rt::inWords(const CallOptions &options, const RandomCall &call,
                             uint32_t rows) {
  return formatted("attention: {} sequences, {} queries, {} KV heads of {} "
                   "rows (at most {}), {} query heads, head size {}, {}",
                   options.batch, call.args.queries, options.kvHeads, rows,
                   call.longest, call.args.q_heads, options.headDim,
                   dtypeName(options.dtype));
}

ordered_json kvc::rt::inNumbers(const CallOptions &options,
                                const RandomCall &call, uint32_t rows) {
  return {{"batch", options.batch},
          {"queries", call.args.queries},
          {"rows", rows},
          {"longest", call.longest},
          {"kv_heads", options.kvHeads},
          {"q_heads", call.args.q_heads},
          {"head_dim", options.headDim},
          {"dtype", dtypeName(options.dtype)},
          {"skew", options.skew},
          {"page", options.page}};
}
