#include "executor/io/FindNaN.h"

#include "runtime/base/Failure.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

using namespace kvc::rt;

TEST(Safetensors, ReadsWhatItWrites) {
  std::string path = testing::TempDir() + "round-trip.safetensors";
  std::vector<float> values{1.5f, -2, 3};
  Tensors tensors{
      {"a", TensorData::of("F32", {3}, values)},
      {"empty", TensorData::of("I32", {0}, std::vector<int32_t>())}};
  writeTensors({{path, tensors, {{"scale", "0.125"}}}});
  SafetensorsFile file(path);
  EXPECT_EQ(file.metadata.at("scale"), "0.125");
  EXPECT_EQ(file.at("a").shape, std::vector<uint64_t>{3});
  EXPECT_EQ(std::memcmp(file.at("a").data, values.data(), 12), 0);
  EXPECT_EQ(file.at("empty").bytes, 0u);
  EXPECT_EQ(file.find("b"), nullptr);
  EXPECT_THROW(file.at("b"), Failure);
}

TEST(FindNaN, FirstOfAll) {
  // Enough for several threads.
  std::vector<float> values(size_t(5) << 20, 1.0f);
  TensorView tensor{"F32",
                    {values.size()},
                    reinterpret_cast<const std::byte *>(values.data()),
                    values.size() * sizeof(float)};
  EXPECT_EQ(findNaN(tensor, KVC_F32), -1);
  for (size_t at : {values.size() - 1, values.size() / 2 + 7, size_t(0)}) {
    values[at] = NAN; // those behind it stay
    EXPECT_EQ(findNaN(tensor, KVC_F32), int64_t(at));
  }
  TensorView none{"BF16", {0, 64}, nullptr, 0};
  EXPECT_EQ(findNaN(none, KVC_BF16), -1);
}

TEST(Safetensors, WritesAllFilesOrNone) {
  std::string good = testing::TempDir() + "good.out";
  std::filesystem::remove(good);
  EXPECT_THROW(
      writeFiles({{good, {"x"}}, {testing::TempDir() + "no/dir/out", {"y"}}}),
      Failure);
  EXPECT_FALSE(std::filesystem::exists(good));
}
