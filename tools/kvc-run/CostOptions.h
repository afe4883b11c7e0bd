//===- CostOptions.h - options of profile and measure ---------------------===//

#ifndef KVC_TOOLS_KVC_RUN_COSTOPTIONS_H
#define KVC_TOOLS_KVC_RUN_COSTOPTIONS_H

#include "executor/cost/RandomCall.h"
#include "executor/cost/RandomLayer.h"
#include "tools/kvc-run/Commands.h"

namespace kvc::rt {

/// Declares a layer's options, and sets `run` to `act` when the command is given.
void addLayer(CLI::App &command, LayerOptions &options,
              std::function<int()> &run, std::function<void()> act);
/// The same of a call of kvc_attend.
void addCall(CLI::App &command, CallOptions &options, std::function<int()> &run,
             std::function<void()> act);
/// --card and --blocks of an estimate.
void addEstimate(CLI::App &command, std::string &card, uint32_t &blocks);
/// --repeats of a measurement.
void addRepeats(CLI::App &command, uint32_t &repeats);

} // namespace kvc::rt

#endif // KVC_TOOLS_KVC_RUN_COSTOPTIONS_H
