#include "runtime/plan/Manifest.h"

#include "runtime/base/Failure.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace kvc::rt;
using nlohmann::json;

static json good() {
  return {{"format", 1},
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

TEST(Manifest, Parses) {
  Manifest manifest = Manifest::parse(good().dump());
  EXPECT_EQ(manifest.variants.at(0).dtype, KVC_BF16);
  EXPECT_EQ(manifest.variants.at(0).kernels.at(0).block, 128u);
}

TEST(Manifest, RefusesAnotherFormat) {
  json manifest = good();
  manifest["format"] = 2;
  EXPECT_EQ(refusal(manifest), "manifest: this runtime reads format 1, got "
                               "format 2; compile the policy again");
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
  json block = good();
  block["variants"][0]["kernels"][0]["block"] = 100;
  EXPECT_EQ(refusal(block), "manifest: variants[0].kernels[0].block must be a "
                            "multiple of 32, got 100");
  json buffer = good();
  buffer["lse_buffer"] = 7;
  EXPECT_EQ(refusal(buffer), "manifest: there are 0 buffers, got index 7");
  EXPECT_EQ(refusal(json("text")),
            "manifest: root must be an object, got \"text\"");
}
