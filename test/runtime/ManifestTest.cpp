#include "runtime/plan/Manifest.h"

#include "runtime/base/Failure.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace kvc::rt;
using nlohmann::json;

static json good() {
  return {{"format", 2},
          {"policy", "p"},
          {"queries", 0},
          {"window", 0},
          {"lse_buffer", nullptr},
          {"scores", nullptr},
          {"params", json::object()},
          {"buffers", json::array()},
          {"variants",
           {{{"head_dim", 64},
             {"group", 4},
             {"dtype", "bf16"},
             {"vector", 8},
             {"kernels",
              {{{"name", "k"},
                {"kind", "rows"},
                {"phase", "select"},
                {"block", 128},
                {"grid", {"1", "kv_heads", "batch"}},
                {"args", {"k"}},
                {"skipped_with_lse", false}}}}}}}};
}

static std::string refusal(const json &manifest) {
  try {
    Manifest::parse(manifest.dump());
  } catch (const Failure &failure) {
    EXPECT_EQ(failure.status, KVC_BAD_ARTIFACT);
    return failure.what();
  }
  return "accepted";
}

static KernelSpec firstKernel(const json &manifest) {
  return Manifest::parse(manifest.dump()).variants.at(0).kernels.at(0);
}

TEST(Manifest, Parses) {
  Manifest manifest = Manifest::parse(good().dump());
  EXPECT_EQ(manifest.variants.at(0).dtype, KVC_BF16);
  EXPECT_EQ(manifest.variants.at(0).kernels.at(0).block, 128u);
}

TEST(Manifest, RefusesAnotherFormat) {
  json manifest = good();
  manifest["format"] = 1;
  EXPECT_EQ(refusal(manifest),
            "manifest: this runtime reads formats 2 to 4, got format 1; "
            "compile the policy again");
  manifest["format"] = 5;
  EXPECT_EQ(refusal(manifest),
            "manifest: this runtime reads formats 2 to 4, got format 5; "
            "compile the policy again");
}

TEST(Manifest, ReadsSharedBytes) {
  json manifest = good();
  EXPECT_EQ(firstKernel(manifest).sharedBytes, 0u);
  json &bytes = manifest["variants"][0]["kernels"][0]["shared_bytes"];
  bytes = 67840;
  manifest["format"] = 3;
  EXPECT_EQ(firstKernel(manifest).sharedBytes, 67840u);
  bytes = 232449;
  EXPECT_EQ(refusal(manifest),
            "manifest: variants[0].kernels[0].shared_bytes must be a whole "
            "number up to 232448, got 232449");
}

TEST(Manifest, ReadsThreadsOfWarpgroups) {
  json manifest = good();
  EXPECT_EQ(firstKernel(manifest).warpgroupBlock, 128u);
  json &threads = manifest["variants"][0]["kernels"][0]["warpgroup_block"];
  threads = 512;
  manifest["format"] = 4;
  EXPECT_EQ(firstKernel(manifest).warpgroupBlock, 512u);
  EXPECT_EQ(firstKernel(manifest).block, 128u);
  threads = 500;
  EXPECT_EQ(refusal(manifest),
            "manifest: variants[0].kernels[0].warpgroup_block must be a "
            "multiple of 32, got 500");
}

TEST(Manifest, NamesWhatIsWrong) {
  json missing = good();
  missing.erase("policy");
  EXPECT_EQ(refusal(missing), "manifest: root.policy is missing");
  json type = good();
  type["queries"] = "many";
  EXPECT_EQ(refusal(type),
            "manifest: root.queries must be \"all\" or a whole number, got "
            "\"many\"");
  json dtype = good();
  dtype["variants"][0]["dtype"] = "int4";
  EXPECT_EQ(
      refusal(dtype),
      "manifest: variants[0].dtype must be f32, f16 or bf16, got \"int4\"");
  json alignment = good();
  alignment["variants"][0]["host_alignment"] = 6;
  EXPECT_EQ(refusal(alignment),
            "manifest: variants[0].host_alignment must be a "
            "power of two, got 6");
  json block = good();
  block["variants"][0]["kernels"][0]["block"] = 100;
  EXPECT_EQ(refusal(block), "manifest: variants[0].kernels[0].block must be a "
                            "multiple of 32, got 100");
  json buffer = good();
  buffer["lse_buffer"] = 7;
  EXPECT_EQ(refusal(buffer), "manifest: root.lse_buffer must be null or one of "
                             "0 buffers, got 7");
  EXPECT_EQ(refusal(json("text")),
            "manifest: root must be an object, got \"text\"");
}

TEST(Manifest, Numbers) {
  json negative = good();
  negative["window"] = -1;
  EXPECT_EQ(refusal(negative),
            "manifest: root.window must be a whole number up to 4294967295, "
            "got -1");
  json none = good();
  none["variants"][0]["vector"] = 0;
  EXPECT_EQ(refusal(none).find("manifest: variants[0].head_dim must be at "
                               "least 1, as group and vector, got {"),
            0u);
  json scores = good();
  scores["buffers"] = {{{"bytes", 4}, {"dims", {"tokens"}}, {"live", {0, 0}}}};
  scores["scores"] = {{"buffer", nullptr}, {"heads", "kv_heads"}};
  EXPECT_EQ(refusal(scores),
            "manifest: scores.buffer must be a buffer, got null");
}

TEST(Manifest, MustBeJson) {
  try {
    Manifest::parse("{");
    FAIL() << "accepted";
  } catch (const Failure &failure) {
    EXPECT_STREQ(failure.what(), "manifest: must be JSON, got '{'");
  }
}

// Index 0 is one like others.
TEST(Manifest, RefusesBufferZeroOfNone) {
  json lse = good();
  lse["lse_buffer"] = 0;
  EXPECT_EQ(refusal(lse), "manifest: root.lse_buffer must be null or one of 0 "
                          "buffers, got 0");
  json scores = good();
  scores["scores"] = {{"buffer", 0}, {"heads", "kv_heads"}};
  EXPECT_EQ(refusal(scores),
            "manifest: scores.buffer must be null or one of 0 buffers, got 0");
}

TEST(Manifest, RefusesWhatContradictsItself) {
  json heads = good();
  heads["buffers"] = {{{"bytes", 4}, {"dims", {"tokens"}}, {"live", {0, 0}}}};
  heads["scores"] = {{"buffer", 0}, {"heads", "two_heads"}};
  EXPECT_EQ(refusal(heads), "manifest: scores.heads must be one of kv_heads, "
                            "one_head, got \"two_heads\"");
  json none = good();
  none["variants"] = json::array();
  EXPECT_EQ(refusal(none),
            "manifest: root.variants must be a list of 1 to 1024, got 0");
  json params = good();
  params["params"] = {{"window", "32"}};
  EXPECT_EQ(refusal(params), "manifest: root.params must be an object of "
                             "numbers, got {\"window\":\"32\"}");
  json states = good();
  states["states"] = {"mass", 7};
  EXPECT_EQ(refusal(states), "manifest: root.states must be a list of texts, "
                             "got 7");
  states["states"] = json::array();
  EXPECT_EQ(refusal(states),
            "manifest: root.states must be a list of 1 to 1024, got 0");
  json least = good();
  least["least_queries"] = 1025;
  EXPECT_EQ(refusal(least), "manifest: root.least_queries must be a whole "
                            "number up to 1024, got 1025");
  json live = good();
  live["buffers"] = {
      {{"bytes", 4}, {"dims", {"tokens"}}, {"live", {0, 5000000000}}}};
  EXPECT_EQ(refusal(live), "manifest: buffers[0].live must be two kernels in "
                           "order, got [0,5000000000]");
}

TEST(Manifest, AnswersInOneLine) {
  for (const std::string &text :
       {std::string("{\n  \"format\": 1,\n"), std::string("\x1b[31m\r\x7f"),
        std::string(100000, '['), "{\"format\": " + std::string(5000, '9'),
        "{\"format\": " + std::string(200, '[') + std::string(200, ']') + "}"})
    try {
      Manifest::parse(text);
      FAIL() << "accepted";
    } catch (const Failure &failure) {
      std::string line = failure.what();
      EXPECT_TRUE(line.starts_with("manifest: ")) << line;
      EXPECT_LT(line.size(), 200u);
      for (char c : line)
        EXPECT_TRUE(c >= 0x20 && c < 0x7f) << line;
    }
}
