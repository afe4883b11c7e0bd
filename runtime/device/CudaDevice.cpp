//===- CudaDevice.cpp - kernels on an NVIDIA GPU --------------------------===//

#include "runtime/base/Failure.h"
#include "runtime/device/CudaDriver.h"
#include "runtime/device/Device.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

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

class CudaDevice : public Device {
public:
  CudaDevice(const kvc_artifact &artifact, const Manifest &manifest,
             int ordinal)
      : driver(CudaDriver::get()) {
    int count = 0;
    driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
    if (ordinal < 0 || ordinal >= count)
      throw fail(KVC_BAD_ARGUMENT, "CUDA device must be below {}, got {}",
                 count, ordinal);
    driver.check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
    const kvc_image &image = chooseImage(artifact);
    driver.check(driver.cuDevicePrimaryCtxRetain(&context, device),
                 "cuDevicePrimaryCtxRetain");
    try {
      Current current(*this);
      load(image, manifest);
    } catch (...) {
      driver.cuDevicePrimaryCtxRelease_v2(device);
      throw;
    }
  }

  ~CudaDevice() override {
    driver.cuCtxPushCurrent_v2(context);
    if (module)
      driver.cuModuleUnload(module);
    CUcontext popped;
    driver.cuCtxPopCurrent_v2(&popped);
    driver.cuDevicePrimaryCtxRelease_v2(device);
  }

  void launch(const Launch &launch, void *stream) override {
    Current current(*this);
    std::vector<void *> slots;
    for (const uint64_t &arg : launch.args)
      slots.push_back(const_cast<uint64_t *>(&arg));
    driver.check(driver.cuLaunchKernel(
                     functions.at(launch.kernel), launch.grid[0],
                     launch.grid[1], launch.grid[2], launch.block, 1, 1, 0,
                     static_cast<CUstream>(stream), slots.data(), nullptr),
                 "cuLaunchKernel of " + launch.kernel);
  }

  void *allocate(size_t bytes) override {
    Current current(*this);
    CUdeviceptr memory;
    driver.check(driver.cuMemAlloc_v2(&memory, std::max<size_t>(bytes, 1)),
                 "cuMemAlloc of " + std::to_string(bytes) + " bytes");
    return reinterpret_cast<void *>(memory);
  }
  void release(void *memory) override {
    Current current(*this);
    driver.cuMemFree_v2(address(memory));
  }
  void upload(void *to, const void *from, size_t bytes) override {
    Current current(*this);
    driver.check(driver.cuMemcpyHtoD_v2(address(to), from, bytes),
                 "cuMemcpyHtoD");
  }
  void download(void *to, const void *from, size_t bytes) override {
    Current current(*this);
    driver.check(driver.cuMemcpyDtoH_v2(to, address(from), bytes),
                 "cuMemcpyDtoH");
  }
  void clear(void *memory, size_t bytes) override {
    Current current(*this);
    driver.check(driver.cuMemsetD8_v2(address(memory), 0, bytes), "cuMemsetD8");
  }
  void synchronize() override {
    Current current(*this);
    driver.check(driver.cuCtxSynchronize(), "cuCtxSynchronize");
  }
  bool onHost() const override { return false; }

private:
  /// Makes the context current for a scope and restores what was.
  struct Current {
    explicit Current(CudaDevice &device) : driver(device.driver) {
      driver.check(driver.cuCtxPushCurrent_v2(device.context),
                   "cuCtxPushCurrent");
    }
    ~Current() {
      CUcontext popped;
      driver.cuCtxPopCurrent_v2(&popped);
    }
    const CudaDriver &driver;
  };

  static CUdeviceptr address(const void *memory) {
    return reinterpret_cast<CUdeviceptr>(memory);
  }

  int attribute(int which) {
    int value = 0;
    driver.check(driver.cuDeviceGetAttribute(&value, which, device),
                 "cuDeviceGetAttribute");
    return value;
  }

  /// PTX for the newest chip that is not newer than the device.
  const kvc_image &chooseImage(const kvc_artifact &artifact) {
    int have = attribute(cudaMajor) * 10 + attribute(cudaMinor);
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

  void load(const kvc_image &image, const Manifest &manifest) {
    char log[4096] = "";
    int options[] = {cudaErrorLog, cudaErrorLogBytes};
    void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
    CUresult result =
        driver.cuModuleLoadDataEx(&module, image.ptx, 2, options, values);
    std::string words(log);
    std::replace(words.begin(), words.end(), '\n', ' ');
    driver.check(result, "loading the PTX for " + std::string(image.chip) +
                             (words.empty() ? "" : " (" + words + ")"));
    for (const Variant &variant : manifest.variants)
      for (const KernelSpec &kernel : variant.kernels)
        driver.check(driver.cuModuleGetFunction(&functions[kernel.name], module,
                                                kernel.name.c_str()),
                     "cuModuleGetFunction of " + kernel.name);
  }

  const CudaDriver &driver;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  std::map<std::string, CUfunction, std::less<>> functions;
};

} // namespace

std::unique_ptr<Device> kvc::rt::makeCudaDevice(const kvc_artifact &artifact,
                                                const Manifest &manifest,
                                                int ordinal) {
  return std::make_unique<CudaDevice>(artifact, manifest, ordinal);
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
