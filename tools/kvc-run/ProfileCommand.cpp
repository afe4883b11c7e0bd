//===- ProfileCommand.cpp - kvc-run profile, profile-attention ------------===//

#include "executor/cost/ProfileAttention.h"
#include "executor/cost/ProfileLayer.h"
#include "tools/kvc-run/CostOptions.h"

void kvc::rt::addProfile(CLI::App &app, std::function<int()> &run) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App &command = *app.add_subcommand(
      "profile", "Estimate what one layer of a policy takes on a GPU");
  addLayer(command, *options, run, [options] { profile(*options); });
  addEstimate(command, options->card, options->blocks);
}

void kvc::rt::addProfileAttention(CLI::App &app, std::function<int()> &run) {
  auto options = std::make_shared<AttentionProfileOptions>();
  CLI::App &command = *app.add_subcommand(
      "profile-attention", "Estimate what kvc_attend takes on a GPU");
  addCall(command, *options, run, [options] { profileAttention(*options); });
  addEstimate(command, options->card, options->blocks);
}
