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
  CudaDevice(const kvc_artifact &artifact, const KernelNames &names,
             int ordinal)
      : names(names), context(ordinal), driver(context.driver) {
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
    std::array<CudaLaunchAttribute, 2> attributes;
    unsigned count = 0;
    if (launch.follows && function.mayBeginEarly)
      attributes[count++] = CudaLaunchAttribute::early();
    if (launch.cluster > 1)
      attributes[count++] = CudaLaunchAttribute::cluster(launch.cluster);
    CUresult result;
    if (count) {
      CudaLaunchConfig config = {{x, y, z},          {launch.block, 1, 1},
                                 launch.sharedBytes, queue,
                                 attributes.data(),  count};
      result = driver.cuLaunchKernelEx(&config, function.handle, slots.data(),
                                       nullptr);
    } else {
      result = driver.cuLaunchKernel(function.handle, x, y, z, launch.block, 1,
                                     1, launch.sharedBytes, queue, slots.data(),
                                     nullptr);
    }
    if (result)
      driver.check(result, "launch of " + nameOf(launch.kernel));
  }

  bool hasClusters(const Launch &launch) const override {
    const Function &function = functions[launch.kernel];
    if (!function.handle || launch.cluster > mostBlocksOfCluster)
      return false;
    std::atomic<int> &most = function.mostClusters[launch.cluster];
    if (most < 0)
      most = countClusters(launch, function);
    auto [x, y, z] = launch.grid;
    uint64_t clusters = uint64_t(x) / launch.cluster * y * z;
    return uint64_t(most) >=
           (launch.cluster > portableBlocksOfCluster ? clusters : 1);
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

private:
  static CUdeviceptr address(const void *memory) {
    return reinterpret_cast<CUdeviceptr>(memory);
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

  const std::string &nameOf(uint32_t kernel) const {
    size_t plain = names.kernels.size();
    return kernel < plain ? names.kernels[kernel]
                          : names.clusters[kernel - plain];
  }

  struct Function {
    CUfunction handle = nullptr; // null: a cluster kernel that is not there
    bool mayBeginEarly = false;
    /// Clusters of so many blocks that the device holds at a time; -1: not asked for yet.
    mutable std::array<std::atomic<int>, mostBlocksOfCluster + 1> mostClusters;
    Function() { std::ranges::fill(mostClusters, -1); }
  };

  /// How many clusters of a launch the device holds at a time.
  int countClusters(const Launch &launch, const Function &function) const {
    CudaContext::Current current(context);
    auto [x, y, z] = launch.grid;
    CudaLaunchAttribute cluster = CudaLaunchAttribute::cluster(launch.cluster);
    CudaLaunchConfig config = {{x, y, z},          {launch.block, 1, 1},
                               launch.sharedBytes, nullptr,
                               &cluster,           1};
    int most = 0;
    CUresult result =
        driver.cuOccupancyMaxActiveClusters(&most, function.handle, &config);
    return result ? 0 : most; // a size that it does not know has no place
  }

  /// Each in the newest image that has it.
  void findKernels() {
    int version = 0;
    driver.check(driver.cuDriverGetVersion(&version), "cuDriverGetVersion");
    bool early =
        driver.cuLaunchKernelEx && version >= cudaCapturesEarlyLaunches;
    bool clusters =
        driver.cuLaunchKernelEx && driver.cuOccupancyMaxActiveClusters;
    for (const std::string &name : names.kernels)
      if (!findKernel(name, early))
        throw fail(KVC_BAD_ARTIFACT, "the PTX for {} has no kernel '{}'",
                   images.front().image->chip, name);
    for (const std::string &name : names.clusters)
      if (!clusters)
        functions.emplace_back();
      else if (findKernel(name, early))
        // Where it may not, there are none of them.
        driver.cuFuncSetAttribute(functions.back().handle, cudaLargeClusters,
                                  1);
  }

  /// False where no image has it.
  bool findKernel(const std::string &name, bool early) {
    Function &function = functions.emplace_back();
    auto has = [&](const Loaded &one) {
      return !kernelText(one.image->ptx, name).empty();
    };
    auto found = std::ranges::find_if(images, has);
    if (found == images.end())
      return false;
    Loaded &from = *found;
    if (!from.module)
      from.module = context.load(
          from.image->ptx, "the PTX for " + std::string(from.image->chip));
    driver.check(
        driver.cuModuleGetFunction(&function.handle, from.module, name.c_str()),
        "cuModuleGetFunction of " + name);
    function.mayBeginEarly =
        early && waitsItself(kernelText(from.image->ptx, name));
    return true;
  }

  const KernelNames names;
  const CudaContext context;
  const CudaDriver &driver;
  std::vector<Loaded> images;
  std::deque<Function> functions; // one for each name
};

} // namespace

std::unique_ptr<Device> kvc::rt::makeCudaDevice(const kvc_artifact &artifact,
                                                const KernelNames &names,
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
