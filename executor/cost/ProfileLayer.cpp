//===- ProfileLayer.cpp - kvc-run profile ---------------------------------===//

#include "executor/cost/ProfileLayer.h"

#include "executor/eviction/Budget.h"
#include "executor/eviction/LaunchNumbers.h"
#include "executor/cost/RandomLayer.h"
#include "executor/io/Safetensors.h"
#include "kvc/ptx.h"
#include "ptx/PTXDevice.h"
#include "ptx/profile/Report.h"
#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"

#include "runtime/base/Format.h"
#include <nlohmann/json.hpp>

#include <iostream>

using namespace kvc::rt;
using nlohmann::ordered_json;

void kvc::rt::profile(const ProfileOptions &options) {
  Budget budget = Budget::parse(options.budget, options.keep);
  if (!options.json.empty())
    checkWritable({options.json});
  kvc_enable_ptx();
  kvc_target target = {};
  target.struct_size = sizeof target;
  target.kind = KVC_PTX;
  kvc_module module(options.policy, target);
  const Variant &variant = module.manifest.variants.front();
  ordered_json profiles = ordered_json::array();
  for (uint32_t tokens : options.tokens) {
    auto profiler =
        ptx::watchLaunches(*module.device, options.card, options.blocks);
    for (const KernelSpec &kernel : variant.kernels)
      // What these make others select by; and the work on lists is the first
      // blocks'.
      if (kernel.kind == "spans" || kernel.kind == "gram" ||
          kernel.kind == "norms")
        profiler->runWhole(kernel.name);
    kvc_plan_options limits = limitsOf(module, options, tokens);
    kvc_plan plan(module, limits);
    uint32_t kept = budget.of(tokens);
    RandomLayer layer(plan, options, tokens, kept);
    plan.enqueue(layer.args, Phase::Score, Phase::Compact, nullptr);
    std::cout << formatted(
                     "{}: {} tokens, {} kept a head, {} KV heads, {} query "
                     "heads, head size {}, {}\n",
                     module.manifest.policy, tokens, kept, limits.kv_heads,
                     limits.q_heads, limits.head_dim, dtypeName(limits.dtype))
              << ptx::report(*profiler);
    ordered_json launches = ordered_json::array();
    for (const ptx::LaunchProfile &launch : profiler->launches())
      launches.push_back(describeLaunch(launch, profiler->card()));
    profiles.push_back({{"policy", module.manifest.policy},
                        {"card", options.card},
                        {"tokens", tokens},
                        {"budget", kept},
                        {"kv_heads", limits.kv_heads},
                        {"q_heads", limits.q_heads},
                        {"head_dim", limits.head_dim},
                        {"dtype", dtypeName(limits.dtype)},
                        {"lse_given", options.lse},
                        {"launches", launches}});
  }
  if (!options.json.empty())
    writeFiles({{options.json, profiles.dump(1) + "\n"}});
}
