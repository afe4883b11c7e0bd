//===- PTXDevice.cpp ------------------------------------------------------===//

#include "ptx/PTXDevice.h"

#include "kvc/ptx.h"
#include "ptx/Machine.h"
#include "ptx/Parser.h"
#include "ptx/profile/Profiler.h"
#include "ptx/profile/Registers.h"
#include "runtime/base/Failure.h"
#include "runtime/device/ChipName.h"
#include "runtime/device/Targets.h"

#include <algorithm>
#include <cstring>

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
  for (const std::string &name : names)
    kernels.push_back(&find(artifact, name));
}

/// Newer images are in front of older ones, and read only where they are needed.
const ptx::Kernel &PTXDevice::find(const kvc_artifact &artifact,
                                   const std::string &name) {
  for (uint32_t behind = 0; behind < artifact.image_count; ++behind) {
    if (behind == loaded.size()) {
      const kvc_image &image =
          artifact.images[artifact.image_count - 1 - behind];
      std::string_view text(image.ptx, image.size);
      loaded.push_back({image.chip, text, parse(text)});
    }
    auto &of = loaded[behind].program.kernels;
    if (auto found = of.find(name); found != of.end())
      return found->second;
  }
  std::string chips;
  for (const Image &image : loaded)
    chips += (chips.empty() ? "" : ", ") + image.chip;
  throw fail(KVC_BAD_ARTIFACT, "the PTX for {} has no kernel '{}'", chips,
             name);
}

void PTXDevice::launch(const rt::Launch &launch, void *) {
  const Kernel &kernel = *kernels[launch.kernel];
  std::vector<std::byte> bytes(kernel.parameterBytes);
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
  LaunchShape shape{launch.grid, launch.block, launch.follows && kernel.waits,
                    launch.sharedBytes};
  if (profiler)
    profiler->run(kernel, shape, bytes, memory.view(), threads, seed);
  else
    run(kernel, shape, bytes, memory.view(), threads, seed);
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
  Profiler::Options options{found, blocks, {}, {}};
  for (const PTXDevice::Image &image : machine->images()) {
    rt::ChipName chip(image.chip), card(found.chip);
    if (chip.alone && !chip.runsOn(card.number)) {
      for (const auto &[name, kernel] : image.program.kernels)
        options.refused.emplace(name, image.chip);
      continue;
    }
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
