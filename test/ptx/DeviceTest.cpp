//===- DeviceTest.cpp - an artefact on the PTX target ---------------------===//

#include "test/ptx/Kernel.h"

#include "kvc/ptx.h"
#include "runtime/device/Targets.h"

#include <gtest/gtest.h>

using namespace kvc;
using namespace kvc::test;

namespace {

/// A device with `name` out of an artefact that has `kernel` and `images` images.
std::unique_ptr<rt::Device> deviceOf(const std::string &name,
                                     uint32_t images = 1) {
  kvc_enable_ptx();
  static const std::string text = kernelText("cvt.u64.u32 %d2, %r0;");
  static const kvc_image image = {"sm_80", text.c_str(), text.size()};
  kvc_artifact artifact = {};
  artifact.images = &image;
  artifact.image_count = images;
  kvc_target target = {};
  target.kind = KVC_PTX;
  std::string names[] = {name};
  return rt::openDevice(artifact, names, target);
}

TEST(PTXDevice, RunsAKernel) {
  std::unique_ptr<rt::Device> device = deviceOf("kernel");
  void *results = device->allocate(64 * 8);
  uint64_t arguments[] = {reinterpret_cast<uint64_t>(results)};
  device->launch({0, {1, 1, 1}, 64, arguments}, nullptr);
  device->synchronize();
  int64_t values[64];
  device->download(values, results, sizeof values);
  for (int64_t i = 0; i < 64; ++i)
    EXPECT_EQ(values[i], i);
  device->release(results);
}

TEST(PTXDevice, RefusesWhatDoesNotFit) {
  EXPECT_EQ(complaintOf([] { deviceOf("other"); }),
            "the PTX for sm_80 has no kernel 'other'");
  EXPECT_EQ(complaintOf([] { deviceOf("kernel", 0); }),
            "artifact has no PTX: compile it with --chip=sm_90, say");
  EXPECT_EQ(complaintOf([] {
              deviceOf("kernel")->launch({0, {1, 1, 1}, 64, {}}, nullptr);
            }),
            "kernel 'kernel' has 1 parameters, got 0");
  uint64_t two[2] = {};
  EXPECT_EQ(complaintOf([&] {
              deviceOf("kernel")->launch({0, {1, 1, 1}, 64, two}, nullptr);
            }),
            "kernel 'kernel' has 1 parameters, got 2");
  ptx::Program program = ptx::parse(kernelText(""));
  EXPECT_EQ(complaintOf([&] {
              ptx::run(program.kernels.at("kernel"), {{1, 1, 1}, 32}, {},
                       ptx::GlobalMemory().view(), 1, 0);
            }),
            "kernel 'kernel' has 8 bytes of parameters, got 0");
}

} // namespace
