//===- ProfileLayer.cpp - kvc-run profile ---------------------------------===//

#include "executor/cost/ProfileLayer.h"

#include "executor/cost/Described.h"
#include "executor/eviction/Budget.h"
#include "executor/eviction/LaunchNumbers.h"
#include "executor/io/Safetensors.h"
#include "kvc/ptx.h"
#include "ptx/PTXDevice.h"
#include "ptx/profile/Report.h"

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
    std::cout << inWords(plan, kept) << "\n" << ptx::report(*profiler);
    ordered_json launches = ordered_json::array();
    for (const ptx::LaunchProfile &launch : profiler->launches())
      launches.push_back(describeLaunch(launch, profiler->card()));
    ordered_json numbers = inNumbers(plan, kept);
    numbers["card"] = options.card;
    numbers["launches"] = launches;
    profiles.push_back(numbers);
  }
  if (!options.json.empty())
    writeFiles({{options.json, {profiles.dump(1), "\n"}}});
}
