//===- DeviceTest.cpp - an artefact on a CUDA device ----------------------===//

#include "kvc/artifact.h"
#include "runtime/base/Failure.h"
#include "runtime/device/Device.h"

#include <gtest/gtest.h>

using namespace kvc::rt;

TEST(CudaDevice, NamesTheKernelThatIsNotThere) {
  static constexpr std::string_view text =
      ".version 7.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry kernel()\n{\nret;\n}\n";
  static constexpr kvc_image image = {"sm_80", text.data(), text.size()};
  kvc_artifact artifact = {};
  artifact.images = &image;
  artifact.image_count = 1;
  kvc_target target = {};
  target.kind = KVC_CUDA;
  const std::string names[] = {"other"};
  try {
    makeCudaDevice(artifact, names, target);
    FAIL() << "it must be refused";
  } catch (const Failure &failure) {
    EXPECT_STREQ(failure.what(), "the PTX for sm_80 has no kernel 'other'");
    EXPECT_EQ(failure.status, KVC_BAD_ARTIFACT);
  }
}
