// What a plan refuses, each by a manifest or an argument of its own.

#include "test/runtime/PlannedLayer.h"

#include <cmath>
#include <string>

namespace {

/// A policy of one kernel.
std::string manifestOf(const std::string &args = "\"k\"",
                       const std::string &grid = "1",
                       const std::string &buffers = "",
                       const std::string &lse = "null") {
  return R"({"format": 2, "policy": "test", "queries": 4, "window": 4,
    "lse_buffer": )" +
         lse + R"(, "scores": null, "params": {}, "buffers": [)" + buffers +
         R"(], "variants": [{"head_dim": 64, "group": 2, "dtype": "f32",
    "vector": 4, "kernels": [{"name": "score", "kind": "columns", "phase": "score", "block": 32,
    "grid": [")" +
         grid + R"(", "1", "1"], "args": [)" + args +
         R"(], "skipped_with_lse": false}]}]})";
}

using Opened = kvc::test::PlannedLayer;

} // namespace

TEST(PlanErrors, None) {
  Opened good(manifestOf());
  EXPECT_EQ(good.evict(), KVC_OK) << Opened::error();
}

TEST(PlanErrors, Limits) {
  Opened large(manifestOf());
  large.options.max_batch = 65536;
  EXPECT_EQ(large.create(), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(Opened::error(),
            "max_batch must be below 2^16, kv_heads at most 1024 and "
            "max_tokens * kv_heads below 2^31, got 65536, 2 and 100 tokens");
}

TEST(PlanErrors, ScratchBuffers) {
  Opened large(manifestOf(
      "\"k\"", "1",
      R"({"bytes": 4000000000, "dims": ["tokens", "tokens", "tokens"], "live": [0, 0]})"));
  EXPECT_EQ(large.create(), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(Opened::error(), "scratch buffer 0 is too large");
}

TEST(PlanErrors, Arguments) {
  Opened unknown(manifestOf("\"k\", \"nothing\""));
  EXPECT_EQ(unknown.create(), KVC_BAD_ARTIFACT);
  EXPECT_EQ(Opened::error(), "manifest: unknown kernel argument 'nothing'");
  Opened lse(manifestOf("\"lse\""));
  EXPECT_EQ(lse.create(), KVC_BAD_ARTIFACT);
  EXPECT_EQ(Opened::error(),
            "manifest: a kernel reads lse, but lse_buffer is null");
}

TEST(PlanErrors, ValuesThatAKernelReads) {
  Opened none(manifestOf("\"v\""));
  none.layer.v.data = nullptr;
  EXPECT_EQ(none.evict(), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Opened::error(), "v must not be null");
  Opened unread(manifestOf("\"k\""));
  unread.layer.v.data = nullptr;
  EXPECT_EQ(unread.evict(), KVC_OK) << Opened::error();
}

TEST(PlanErrors, Grid) {
  Opened overflow(manifestOf("\"k\"", "ceildiv(tokens,0)"));
  EXPECT_EQ(overflow.create(), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(Opened::error(),
            "an extent must fit 64 bits, got 'ceildiv(tokens,0)'");
  Opened wide(manifestOf("\"k\"", "tokens*tokens*tokens*tokens*tokens"));
  EXPECT_EQ(wide.evict(), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(Opened::error(),
            "grid of score must fit, got "
            "'tokens*tokens*tokens*tokens*tokens' = 10000000000");
}

TEST(PlanErrors, Scale) {
  Opened infinite(manifestOf());
  infinite.layer.scale = INFINITY;
  EXPECT_EQ(infinite.evict(), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Opened::error(), "scale must be finite, got inf");
}

TEST(PlanErrors, State) {
  int32_t counts[100] = {};
  Opened few(manifestOf("\"state\""));
  few.layer.state = counts;
  few.layer.state_rows = 99;
  EXPECT_EQ(few.evict(), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(Opened::error(), "state_rows must be at least tokens (100) and "
                             "layers below 2^15, got 99 and 1");
}

TEST(PlanErrors, Outputs) {
  Opened odd(manifestOf());
  odd.layer.v_out = odd.memory + 4;
  EXPECT_EQ(odd.evict(), KVC_MISALIGNED);
  EXPECT_EQ(Opened::error().find("v_out must be aligned to 16 bytes, got "), 0u)
      << Opened::error();
}

TEST(PlanErrors, Table) {
  float importance[4] = {1, 1, 1, 1};
  Opened deep(manifestOf("\"table\""));
  deep.layer.table = importance;
  deep.layer.layers = 10000;
  EXPECT_EQ(deep.evict(), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(Opened::error(),
            "with a table, layers * kv_heads must be at most 2^14 and tokens "
            "below 2^21, got 10000 * 2 and 100");
}
