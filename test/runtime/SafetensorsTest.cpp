#include "executor/io/Safetensors.h"

#include "runtime/base/Failure.h"

#include <gtest/gtest.h>

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

TEST(Safetensors, WritesAllFilesOrNone) {
  std::string good = testing::TempDir() + "good.out";
  std::filesystem::remove(good);
  EXPECT_THROW(
      writeFiles({{good, {"x"}}, {testing::TempDir() + "no/dir/out", {"y"}}}),
      Failure);
  EXPECT_FALSE(std::filesystem::exists(good));
}
