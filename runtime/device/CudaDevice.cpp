//===- CudaDevice.cpp - kernels on an NVIDIA GPU --------------------------===//

#include "runtime/base/Failure.h"
#include "runtime/device/ChipName.h"
#include "runtime/device/CudaContext.h"
#include "runtime/device/Device.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <string_view>
#include <vector>

using namespace kvc::rt;

namespace {

/// Of a kernel in a text of PTX; empty: it is not there.
std::string_view kernelText(std::string_view ptx, const std::string &name) {
  size_t begin = ptx.find(".entry " + name + "(");
  if (begin == ptx.npos)
    return {};
  return ptx.substr(begin, ptx.find(".entry ", begin + 1) - begin);
}

/// True if a kernel waits for what is in front of it in its stream, and so may be
/// launched before that has ended.
bool waitsItself(std::string_view kernel) {
  return kernel.find("griddepcontrol.wait") != kernel.npos;
}

class CudaDevice : public Device {
public:
  CudaDevice(const kvc_artifact &artifact, std::span<const std::string> names,
             int ordinal)
      : names(names.begin(), names.end()), context(ordinal),
        driver(context.driver),
        multiprocessors(uint32_t(context.attribute(cudaMultiprocessors))) {
    chooseImages(artifact);
    CudaContext::Current current(context);
    try {
      findKernels();
    } catch (...) {
      unload();
      throw;
    }
  }

  ~CudaDevice() override {
    CudaContext::Current current(context, CudaContext::Current::Use::Release);
    unload();
  }

  void launch(const Launch &launch, void *stream) override {
    CudaContext::Current current(context);
    std::array<void *, KVC_MAX_KERNEL_ARGUMENTS> slots;
    for (size_t i = 0; i < launch.args.size(); ++i)
      slots[i] = const_cast<uint64_t *>(&launch.args[i]);
    const Function &function = functions[launch.kernel];
    auto [x, y, z] = launch.grid;
    auto *queue = static_cast<CUstream>(stream);
    context.allowSharedBytes(function.handle, launch.sharedBytes);
    CUresult result;
    if (launch.front && function.waits && runsAtOnce(*launch.front)) {
      static constexpr CudaLaunchAttribute early;
      CudaLaunchConfig config = {
          {x, y, z}, {launch.block, 1, 1}, launch.sharedBytes, queue, &early,
          1};
      result = driver.cuLaunchKernelEx(&config, function.handle, slots.data(),
                                       nullptr);
    } else {
      result = driver.cuLaunchKernel(function.handle, x, y, z, launch.block, 1,
                                     1, launch.sharedBytes, queue, slots.data(),
                                     nullptr);
    }
    if (result)
      driver.check(result, "launch of " + names[launch.kernel]);
  }

  void *allocate(size_t bytes) override {
    CudaContext::Current current(context);
    CUdeviceptr memory;
    driver.check(driver.cuMemAlloc_v2(&memory, std::max<size_t>(bytes, 1)),
                 "cuMemAlloc of " + std::to_string(bytes) + " bytes");
    return reinterpret_cast<void *>(memory);
  }
  void release(void *memory) override {
    CudaContext::Current current(context, CudaContext::Current::Use::Release);
    driver.cuMemFree_v2(address(memory));
  }
  void upload(void *to, const void *from, size_t bytes) override {
    CudaContext::Current current(context);
    driver.check(driver.cuMemcpyHtoD_v2(address(to), from, bytes),
                 "cuMemcpyHtoD");
  }
  void download(void *to, const void *from, size_t bytes) override {
    CudaContext::Current current(context);
    driver.check(driver.cuMemcpyDtoH_v2(to, address(from), bytes),
                 "cuMemcpyDtoH");
  }
  void clear(void *memory, size_t bytes) override {
    CudaContext::Current current(context);
    driver.check(driver.cuMemsetD8_v2(address(memory), 0, bytes), "cuMemsetD8");
  }
  void synchronize() override {
    CudaContext::Current current(context);
    driver.check(driver.cuCtxSynchronize(), "cuCtxSynchronize");
  }
  bool onHost() const override { return false; }
  bool mapTensor(const BoxedTensor &tensor, kvc::gpu::TensorMap &map) override {
    CudaContext::Current current(context);
    return driver.mapTensor(tensor, map);
  }
  bool multipliesByWarpgroups(uint32_t kernel) const override {
    return functions[kernel].hasWarpgroups;
  }

private:
  static CUdeviceptr address(const void *memory) {
    return reinterpret_cast<CUdeviceptr>(memory);
  }

  /// True where the device has room for all blocks of a launch together. Behind one that
  /// runs in waves early blocks would take places that its own next ones wait for: measured
  /// on an H200, up to 4 us of 90 (docs/decisions.md).
  bool runsAtOnce(const Launch &launch) {
    Function &function = functions[launch.kernel];
    uint32_t places = function.places.load(std::memory_order_relaxed);
    if (!places) {
      int ofOne = 0;
      driver.check(
          driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
              &ofOne, function.handle, int(launch.block), launch.sharedBytes),
          "cuOccupancyMaxActiveBlocksPerMultiprocessor of " +
              names[launch.kernel]);
      places = uint32_t(ofOne) * multiprocessors;
      function.places.store(places, std::memory_order_relaxed);
    }
    auto [x, y, z] = launch.grid;
    return uint64_t(x) * y * z <= places;
  }

  struct Loaded {
    const kvc_image *image;
    ChipName chip;
    CUmodule module = nullptr; // null: nothing of it was asked for
  };

  /// What the device runs, the newest first.
  void chooseImages(const kvc_artifact &artifact) {
    int have = context.chip();
    std::string chips;
    for (uint32_t i = 0; i < artifact.image_count; ++i) {
      const kvc_image &image = artifact.images[i];
      chips += (i ? ", " : "") + std::string(image.chip);
      if (ChipName chip(image.chip); chip.runsOn(have))
        images.push_back({&image, chip});
    }
    if (images.empty())
      throw fail(KVC_UNSUPPORTED,
                 "the device is sm_{}, the policy has PTX for {}", have,
                 chips.empty() ? "no chip" : chips);
    std::ranges::sort(images, std::greater(), &Loaded::chip);
  }

  void unload() {
    for (const Loaded &one : images)
      if (one.module)
        driver.cuModuleUnload(one.module);
  }

  /// Each in the newest image that has it.
  void findKernels() {
    int version = 0;
    driver.check(driver.cuDriverGetVersion(&version), "cuDriverGetVersion");
    bool early =
        driver.cuLaunchKernelEx && version >= cudaCapturesEarlyLaunches;
    for (const std::string &name : names) {
      auto has = [&](const Loaded &one) {
        return !kernelText(one.image->ptx, name).empty();
      };
      auto found = std::ranges::find_if(images, has);
      if (found == images.end())
        throw fail(KVC_BAD_ARTIFACT, "the PTX for {} has no kernel '{}'",
                   images.front().image->chip, name);
      Loaded &from = *found;
      if (!from.module)
        from.module = context.load(
            from.image->ptx, "the PTX for " + std::string(from.image->chip));
      Function &function = functions.emplace_back();
      driver.check(driver.cuModuleGetFunction(&function.handle, from.module,
                                              name.c_str()),
                   "cuModuleGetFunction of " + name);
      function.waits = early && waitsItself(kernelText(from.image->ptx, name));
      function.hasWarpgroups = from.chip.hasWarpgroups();
    }
  }

  const std::vector<std::string> names;
  const CudaContext context;
  const CudaDriver &driver;
  std::vector<Loaded> images;
  const uint32_t multiprocessors;
  struct Function {
    CUfunction handle = nullptr;
    /// For the launch in front of it, where the driver has early launches.
    bool waits = false;
    bool hasWarpgroups = false;
    /// Blocks that the device holds at once, which are as large in each launch; 0: not
    /// asked yet. Several threads may launch.
    std::atomic<uint32_t> places = 0;
  };
  std::deque<Function> functions; // one for each name
};

} // namespace

std::unique_ptr<Device>
kvc::rt::makeCudaDevice(const kvc_artifact &artifact,
                        std::span<const std::string> names,
                        const kvc_target &target) {
  return std::make_unique<CudaDevice>(artifact, names, target.device);
}

bool kvc::rt::cudaDeviceRuns(int ordinal, const char *chip) {
  return ChipName(chip).runsOn(CudaContext(ordinal).chip());
}

int kvc::rt::cudaDeviceCount() {
  try {
    const CudaDriver &driver = CudaDriver::get();
    int count = 0;
    return driver.cuDeviceGetCount(&count) == 0 ? count : 0;
  } catch (const Failure &) {
    return 0;
  }
}
