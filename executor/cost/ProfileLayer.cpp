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
namespace ptx = kvc::ptx;

namespace {

/// Prints the launches since the last report, and has them as numbers.
ordered_json reportCall(ptx::Profiler &profiler) {
  std::vector<ptx::LaunchProfile> launches = profiler.take();
  std::cout << ptx::report(launches, profiler.card());
  ordered_json numbers = ordered_json::array();
  for (const ptx::LaunchProfile &launch : launches)
    numbers.push_back(describeLaunch(launch, profiler.card()));
  return numbers;
}

} // namespace

void kvc::rt::profile(const ProfileOptions &options) {
  Budget budget = Budget::parse(options.budget, options.keep);
  if (!options.json.empty())
    checkWritable({options.json}, {options.policy});
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
    std::cout << inWords(plan, kept) << "\n";
    ordered_json numbers = inNumbers(plan, kept);
    numbers["card"] = options.card;
    if (plan.query().prepared_bytes) {
      plan.prepare(layer.args, nullptr);
      std::cout << "once for all calls of the layer (kvc_layer_prepare):\n";
      numbers["prepare"] = reportCall(*profiler);
      std::cout << "each call:\n";
    }
    plan.enqueue(layer.args, Phase::Score, Phase::Compact, nullptr);
    numbers["launches"] = reportCall(*profiler);
    profiles.push_back(numbers);
  }
  if (!options.json.empty())
    writeFiles({{options.json, {profiles.dump(1), "\n"}}});
}
