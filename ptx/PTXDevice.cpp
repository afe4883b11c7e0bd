//===- PTXDevice.cpp ------------------------------------------------------===//

#include "ptx/PTXDevice.h"

#include "kvc/ptx.h"
#include "ptx/Machine.h"
#include "ptx/Parser.h"
#include "ptx/TensorMap.h"
#include "ptx/profile/Profiler.h"
#include "ptx/profile/Registers.h"
#include "runtime/device/ChipName.h"
#include "runtime/device/Targets.h"

#include <algorithm>
#include <cstring>
#include <ranges>

using namespace kvc;
using kvc::ptx::PTXDevice;
using rt::fail;

PTXDevice::PTXDevice(const kvc_artifact &artifact,
                     std::span<const std::string> names,
                     const kvc_target &target)
    : threads(target.threads), seed(target.seed) {
  if (!artifact.image_count)
    throw fail(KVC_BAD_ARTIFACT, "artifact has no PTX: compile it with "
                                 "--chip=sm_90, say");
  for (const kvc_image &image :
       std::span(artifact.images, artifact.image_count))
    loaded.push_back({image.chip, {image.ptx, image.size}, {}});
  for (const std::string &name : names) {
    kernels.push_back(find(name, [](const Image &) { return true; }));
    if (kernels.back().kernel)
      continue;
    std::string chips;
    for (const Image &image : loaded)
      chips = image.chip + (chips.empty() ? "" : ", ") + chips;
    throw fail(KVC_BAD_ARTIFACT, "the PTX for {} has no kernel '{}'", chips,
               name);
  }
}

PTXDevice::Found
PTXDevice::find(const std::string &name,
                const std::function<bool(const Image &)> &may) {
  for (Image &image : std::views::reverse(loaded)) {
    if (!may(image))
      continue;
    if (!image.program)
      image.program = parse(image.text);
    auto &of = image.program->kernels;
    if (auto found = of.find(name); found != of.end())
      return {&found->second, rt::ChipName(image.chip).hasWarpgroups()};
  }
  return {};
}

void PTXDevice::runAs(const Card &card) {
  int number = rt::ChipName(card.chip).number;
  auto may = [&](const Image &image) {
    rt::ChipName chip(image.chip);
    return !chip.alone || chip.runsOn(number);
  };
  for (Found &one : kernels)
    if (Found found = find(one.kernel->name, may); found.kernel)
      one = found;
    else
      refused.emplace(one.kernel,
                      fail(KVC_BAD_ARGUMENT,
                           "card {} cannot run '{}', PTX for {}", card.name,
                           one.kernel->name, loaded.back().chip));
}

void PTXDevice::launch(const rt::Launch &launch, void *) {
  const Kernel &kernel = *kernels[launch.kernel].kernel;
  if (auto found = refused.find(&kernel); found != refused.end())
    throw found->second;
  ParameterBytes room(kernel);
  std::span bytes = room.all();
  if (kernel.parameters.size() == 1 &&
      kernel.parameterBytes == launch.args.size_bytes()) {
    std::memcpy(bytes.data(), launch.args.data(), bytes.size());
  } else if (launch.args.size() != kernel.parameters.size()) {
    throw fail(KVC_BAD_ARTIFACT, "kernel '{}' has {} parameters, got {}",
               kernel.name, kernel.parameters.size(), launch.args.size());
  } else {
    for (size_t i = 0; i < launch.args.size(); ++i) {
      auto [offset, size] = kernel.parameters[i];
      std::memcpy(&bytes[offset], &launch.args[i], std::min(size, 8u));
    }
  }
  LaunchShape shape{launch.grid, launch.block, launch.front != nullptr,
                    launch.sharedBytes};
  if (profiler)
    profiler->run(kernel, shape, bytes, memory.view(), threads, seed);
  else
    run(kernel, shape, bytes, memory.view(), threads, seed);
}

bool PTXDevice::mapTensor(const rt::BoxedTensor &tensor, gpu::TensorMap &map) {
  map = mapOf(tensor);
  return true;
}

void PTXDevice::upload(void *to, const void *from, size_t bytes) {
  if (bytes)
    std::memcpy(to, from, bytes);
}
void PTXDevice::download(void *to, const void *from, size_t bytes) {
  upload(to, from, bytes);
}
void PTXDevice::clear(void *to, size_t bytes) {
  if (bytes)
    std::memset(to, 0, bytes);
}

std::unique_ptr<ptx::Profiler> kvc::ptx::watchLaunches(rt::Device &device,
                                                       const std::string &card,
                                                       uint32_t blocks) {
  auto *machine = dynamic_cast<PTXDevice *>(&device);
  if (!machine)
    throw fail(KVC_BAD_ARGUMENT, "a profile needs the target ptx");
  const Card &found = findCard(card);
  machine->runAs(found);
  Profiler::Options options{found, blocks, {}};
  // Newer ones first: of a kernel of several images it is theirs that runs.
  for (const PTXDevice::Image &image : std::views::reverse(machine->images())) {
    rt::ChipName chip(image.chip), card(found.chip);
    if (!image.program || (chip.alone && !chip.runsOn(card.number)))
      continue;
    // A driver compiles older PTX for its card.
    options.assembled.merge(
        assemble(image.text, chip < card ? found.chip : image.chip));
  }
  auto profiler = std::make_unique<Profiler>(std::move(options));
  machine->watch(profiler.get());
  return profiler;
}

void kvc_enable_ptx(void) {
  rt::enableTarget(
      KVC_PTX,
      [](const kvc_artifact &artifact, std::span<const std::string> names,
         const kvc_target &target) -> std::unique_ptr<rt::Device> {
        return std::make_unique<PTXDevice>(artifact, names, target);
      });
}
