//===- CudaDevice.cpp - kernels on an NVIDIA GPU --------------------------===//

#include "runtime/base/Failure.h"
#include "runtime/device/CudaContext.h"
#include "runtime/device/Device.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

using namespace kvc::rt;

namespace {

/// 90 for "sm_90", 0 if it is none (sm_90a runs on that chip alone).
int chipNumber(std::string_view chip) {
  int number = 0;
  if (!chip.starts_with("sm_"))
    return 0;
  auto [end, error] =
      std::from_chars(chip.data() + 3, chip.data() + chip.size(), number);
  return error == std::errc() && end == chip.data() + chip.size() ? number : 0;
}

/// True if a kernel of a text of PTX waits for what is in front of it in its stream, and
/// so may be launched before that has ended.
bool waitsItself(std::string_view ptx, const std::string &name) {
  size_t begin = ptx.find(".entry " + name + "(");
  if (begin == ptx.npos)
    return false;
  std::string_view kernel =
      ptx.substr(begin, ptx.find(".entry ", begin + 1) - begin);
  return kernel.find("griddepcontrol.wait") != kernel.npos;
}

class CudaDevice : public Device {
public:
  CudaDevice(const kvc_artifact &artifact, std::span<const std::string> names,
             int ordinal)
      : names(names.begin(), names.end()), context(ordinal),
        driver(context.driver) {
    const kvc_image &image = chooseImage(artifact);
    CudaContext::Current current(context);
    module = context.load(image.ptx, "the PTX for " + std::string(image.chip));
    try {
      findKernels(image.ptx);
    } catch (...) {
      driver.cuModuleUnload(module);
      throw;
    }
  }

  ~CudaDevice() override {
    CudaContext::Current current(context, CudaContext::Current::Use::Release);
    driver.cuModuleUnload(module);
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
    if (launch.follows && function.mayBeginEarly) {
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

private:
  static CUdeviceptr address(const void *memory) {
    return reinterpret_cast<CUdeviceptr>(memory);
  }

  /// PTX for the newest chip that is not newer than the device.
  const kvc_image &chooseImage(const kvc_artifact &artifact) {
    int have = context.chip();
    const kvc_image *best = nullptr;
    std::string chips;
    for (uint32_t i = 0; i < artifact.image_count; ++i) {
      const kvc_image &image = artifact.images[i];
      int number = chipNumber(image.chip);
      chips += (i ? ", " : "") + std::string(image.chip);
      if (number && number <= have &&
          (!best || number > chipNumber(best->chip)))
        best = &image;
    }
    if (!best)
      throw fail(KVC_UNSUPPORTED,
                 "the device is sm_{}, the policy has PTX for {}", have,
                 chips.empty() ? "no chip" : chips);
    return *best;
  }

  void findKernels(std::string_view ptx) {
    int version = 0;
    driver.check(driver.cuDriverGetVersion(&version), "cuDriverGetVersion");
    bool early =
        driver.cuLaunchKernelEx && version >= cudaCapturesEarlyLaunches;
    for (const std::string &name : names) {
      Function &function = functions.emplace_back();
      driver.check(
          driver.cuModuleGetFunction(&function.handle, module, name.c_str()),
          "cuModuleGetFunction of " + name);
      function.mayBeginEarly = early && waitsItself(ptx, name);
    }
  }

  const std::vector<std::string> names;
  const CudaContext context;
  const CudaDriver &driver;
  CUmodule module = nullptr;
  struct Function {
    CUfunction handle = nullptr;
    bool mayBeginEarly = false;
  };
  std::vector<Function> functions; // one for each name
};

} // namespace

std::unique_ptr<Device>
kvc::rt::makeCudaDevice(const kvc_artifact &artifact,
                        std::span<const std::string> names,
                        const kvc_target &target) {
  return std::make_unique<CudaDevice>(artifact, names, target.device);
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
