#include "kvc/host.h"
#include "kvc/kvc.h"
#include "test/runtime/OneLayer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

using kvc::test::limits;

namespace {

void nothing(kvc_simt_thread *, const uint64_t *) {}

const char manifest[] = R"({"format": 2, "policy": "test", "queries": 4,
  "window": 4, "lse_buffer": 0, "scores": null, "params": {},
  "buffers": [{"bytes": 4, "dims": ["batch", "q_heads"], "live": [0, 1]},
              {"bytes": 100, "dims": ["tokens"], "live": [2, 2]}],
  "variants": [{"head_dim": 64, "group": 2, "dtype": "f32", "vector": 4,
    "kernels": [{"name": "score", "kind": "columns", "phase": "score",
                 "block": 32,
                 "grid": ["1", "1", "batch"], "args": ["k", "q", "scratch.1"],
                 "skipped_with_lse": false},
                {"name": "select", "kind": "rows", "phase": "select",
                 "block": 32,
                 "grid": ["1", "kv_heads", "batch"], "args": ["indices"],
                 "skipped_with_lse": false}]}]})";
const kvc_host_entry kernels[] = {{"score", nothing, 0, nullptr, 0},
                                  {"select", nothing, 0, nullptr, 0}};

kvc_artifact artifactOf(std::string_view text) {
  return kvc::test::artifactOf(text, kernels);
}

kvc_target host() {
  kvc_enable_host();
  kvc_target target = {};
  target.struct_size = sizeof target;
  return target;
}

std::string error() {
  char text[512];
  kvc_last_error(text, sizeof text);
  return text;
}

/// A module and a plan, and arguments that are all right.
class Layer : public testing::Test {
public:
  void SetUp() override {
    artifact = artifactOf(manifest);
    kvc_target target = host();
    ASSERT_EQ(kvc_module_open(&artifact, &target, &module), KVC_OK) << error();
    kvc_plan_options options = limits();
    ASSERT_EQ(kvc_plan_create(module, &options, &plan), KVC_OK) << error();
    kvc_plan_info info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(kvc_plan_query(plan, &info), KVC_OK);
    EXPECT_EQ(info.workspace_bytes, 10240u); // 100 * 100, aligned; lives apart
    args = kvc::test::layerOf(memory, &number);
    args.workspace = memory;
    args.workspace_bytes = info.workspace_bytes;
  }
  void TearDown() override {
    kvc_plan_destroy(plan);
    kvc_module_close(module);
  }
  kvc_status evict() { return kvc_layer_evict(plan, &args, nullptr); }

  kvc_artifact artifact;
  kvc_module *module = nullptr;
  kvc_plan *plan = nullptr;
  kvc_layer_args args = {};
  int32_t number = 1;
  alignas(256) char memory[16384];
};

} // namespace

TEST(CApi, RefusesOtherArtifacts) {
  kvc_target target = host();
  kvc_module *module = nullptr;
  kvc_artifact artifact = artifactOf(manifest);
  artifact.version = 99;
  EXPECT_EQ(kvc_module_open(&artifact, &target, &module), KVC_BAD_ARTIFACT);
  EXPECT_EQ(error(), "this runtime reads artifact version 4, got version 99; "
                     "compile the policy again");
  artifact = artifactOf(manifest);
  artifact.magic[0] = 'x';
  EXPECT_EQ(kvc_module_open(&artifact, &target, &module), KVC_BAD_ARTIFACT);
  EXPECT_EQ(error().find("an artifact must begin with '"), 0u) << error();
  artifact = artifactOf(manifest);
  artifact.kernel_count = 1;
  EXPECT_EQ(kvc_module_open(&artifact, &target, &module), KVC_BAD_ARTIFACT);
  EXPECT_EQ(error(), "artifact has no host kernel 'select'");
  EXPECT_EQ(kvc_module_open(nullptr, &target, &module), KVC_BAD_ARGUMENT);
  target.struct_size = 3;
  artifact = artifactOf(manifest);
  EXPECT_EQ(kvc_module_open(&artifact, &target, &module), KVC_ABI_MISMATCH);
}

// What the manifest says is checked when it is opened, not in mid-prefill.
TEST(CApi, RefusesManifestsThatNameNothing) {
  auto refusal = [](std::string text, const std::string &from,
                    const std::string &to) {
    text.replace(text.find(from), from.size(), to);
    kvc_target target = host();
    kvc_module *module = nullptr;
    kvc_artifact artifact = artifactOf(text);
    EXPECT_EQ(kvc_module_open(&artifact, &target, &module), KVC_BAD_ARTIFACT);
    return error();
  };
  for (std::string name : {"scratch.2", "scratch.", "scratch.1x", "scratch.-1",
                           "scratch.99999999999999999999"})
    EXPECT_EQ(refusal(manifest, "scratch.1", name),
              "manifest: there are 2 buffers, got '" + name + "'");
  EXPECT_EQ(refusal(manifest, "[\"1\", \"1\"", "[\"1\", \"many\""),
            "manifest: an extent must be made of known names, numbers, *, "
            "ceildiv(a,b) and min(a,b), got 'many'");
  std::string deep;
  for (int i = 0; i < 100000; ++i)
    deep += "ceildiv(";
  EXPECT_EQ(
      refusal(manifest, "[\"1\", \"1\"", "[\"1\", \"" + deep + "\""),
      "manifest: an extent must have at most 1000 characters, got 800000");
}

TEST(CApi, RefusesArtifactsWithoutWhatTheyCount) {
  kvc_target target = host();
  kvc_module *module = nullptr;
  kvc_artifact artifact = artifactOf(manifest);
  artifact.kernels = nullptr;
  EXPECT_EQ(kvc_module_open(&artifact, &target, &module), KVC_BAD_ARTIFACT);
  EXPECT_EQ(error(), "an artifact must have what it counts, got null for "
                     "manifest, images or kernels");
}

TEST(CApi, RefusesPlansThatDoNotFit) {
  kvc_target target = host();
  kvc_module *module = nullptr;
  kvc_artifact artifact = artifactOf(manifest);
  ASSERT_EQ(kvc_module_open(&artifact, &target, &module), KVC_OK);
  kvc_plan *plan = nullptr;
  kvc_plan_options options = limits();
  options.head_dim = 32;
  EXPECT_EQ(kvc_plan_create(module, &options, &plan), KVC_UNSUPPORTED);
  EXPECT_EQ(error(),
            "policy 'test' is compiled for head_dim=64,group=2,dtype=f32; "
            "got head_dim=32,group=2,dtype=f32");
  options = limits();
  options.q_heads = 3;
  EXPECT_EQ(kvc_plan_create(module, &options, &plan), KVC_BAD_ARGUMENT);
  options = limits();
  options.max_tokens = 0;
  EXPECT_EQ(kvc_plan_create(module, &options, &plan), KVC_BAD_ARGUMENT);
  kvc_module_close(module);
}

// On a machine without a driver this says so; with one the ordinal is refused.
TEST(CApi, SaysWhyThereIsNoDevice) {
  kvc_target target = host();
  target.kind = KVC_CUDA;
  target.device = 1000;
  kvc_module *module = nullptr;
  kvc_artifact artifact = artifactOf(manifest);
  kvc_status status = kvc_module_open(&artifact, &target, &module);
  EXPECT_TRUE(status == KVC_DRIVER_ERROR || status == KVC_BAD_ARGUMENT);
  EXPECT_NE(error().find("CUDA"), std::string::npos) << error();
}

TEST(CApi, RefusesNoPath) {
  kvc_target target = {};
  target.struct_size = sizeof target;
  kvc_module *module = nullptr;
  EXPECT_EQ(kvc_module_load("", &target, &module), KVC_BAD_ARGUMENT);
  EXPECT_EQ(error(), "the path of a policy library must not be empty");
}

TEST_F(Layer, Runs) { EXPECT_EQ(evict(), KVC_OK) << error(); }

TEST_F(Layer, ChecksEveryArgument) {
  kvc_layer_args good = args;
  auto refuses = [&](kvc_status status, const std::string &text) {
    EXPECT_EQ(evict(), status);
    EXPECT_NE(error().find(text), std::string::npos) << error();
    args = good;
  };
  args.tokens = 101;
  refuses(KVC_EXCEEDS_LIMITS,
          "tokens must be 1 to 100 (the plan's max_tokens), "
          "got 101");
  args.batch = 0;
  refuses(KVC_EXCEEDS_LIMITS, "batch must be 1 to 1");
  args.layer = 1;
  refuses(KVC_BAD_ARGUMENT, "layer must be below layers (1), got 1");
  args.lengths = nullptr;
  refuses(KVC_BAD_ARGUMENT, "lengths must not be null");
  args.k.data = memory + 4;
  refuses(KVC_MISALIGNED, "k must be aligned to 16 bytes");
  args.q.row_stride = 66;
  refuses(KVC_MISALIGNED,
          "strides of q must be multiples of 4 elements, got 66");
  args.q_rows = 3;
  refuses(KVC_BAD_ARGUMENT, "reads the last 4 queries, got q_rows 3");
  args.workspace_bytes = 10;
  refuses(KVC_WORKSPACE_TOO_SMALL, "workspace must have 10240 bytes, got 10");
  args.workspace = static_cast<char *>(args.workspace) + 4;
  refuses(KVC_MISALIGNED, "workspace must be aligned to 256 bytes, got");
  float lse[4] = {};
  args.lse = lse;
  args.lse_rows = 3;
  refuses(KVC_BAD_ARGUMENT, "reads the log-sum-exp of the last 4 queries, got "
                            "lse_rows 3");
  args.struct_size = 7;
  refuses(KVC_ABI_MISMATCH, "args.struct_size must be at least 8, got 7");
  args.struct_size = 1 << 20;
  refuses(KVC_ABI_MISMATCH,
          "args.struct_size must be at most 65536, got 1048576");
  args.scale = NAN;
  refuses(KVC_BAD_ARGUMENT, "scale must be finite");
  args.index_capacity = 0;
  refuses(KVC_BAD_ARGUMENT, "index_capacity must be at least 1, got 0");
}

namespace {

/// A struct of another version of kvc.h: `bytes` long, the rest as `known` has it.
template <typename T> class Resized {
public:
  Resized(T known, size_t bytes, char rest = 0) : memory(bytes + 8, rest) {
    known.struct_size = bytes;
    std::memcpy(memory.data(), &known, std::min(bytes, sizeof known));
  }
  T *get() { return reinterpret_cast<T *>(memory.data()); }

private:
  std::vector<char> memory;
};

} // namespace

// An engine built with an older header: what it does not have is 0.
TEST_F(Layer, TakesSmallerStructs) {
  Resized older(args, offsetof(kvc_layer_args, workspace_bytes));
  EXPECT_EQ(kvc_layer_evict(plan, older.get(), nullptr),
            KVC_WORKSPACE_TOO_SMALL);
  EXPECT_EQ(error(), "workspace must have 10240 bytes, got 0");
  Resized none(args, sizeof(size_t));
  EXPECT_EQ(kvc_layer_evict(plan, none.get(), nullptr), KVC_EXCEEDS_LIMITS);
  // struct_size and workspace_bytes, and not a byte behind them.
  kvc_plan_info info = {};
  Resized<kvc_plan_info> small(info, offsetof(kvc_plan_info, launches), 7);
  EXPECT_EQ(kvc_plan_query(plan, small.get()), KVC_OK);
  EXPECT_EQ(small.get()->workspace_bytes, 10240u);
  EXPECT_EQ(small.get()->launches, 0x07070707u);
}

// An engine built with a newer header, which must not use what is new in it.
TEST_F(Layer, TakesLargerStructsThatAreZeroBehindOurs) {
  Resized newer(args, sizeof args + 24);
  EXPECT_EQ(kvc_layer_evict(plan, newer.get(), nullptr), KVC_OK) << error();
  Resized used(args, sizeof args + 24, 1);
  EXPECT_EQ(kvc_layer_evict(plan, used.get(), nullptr), KVC_ABI_MISMATCH);
  EXPECT_EQ(error(),
            "args has " + std::to_string(sizeof args) +
                " bytes here and must be 0 behind them, got 1 at byte " +
                std::to_string(sizeof args) + ": a field of a newer kvc.h");
  kvc_plan_info info = {};
  Resized<kvc_plan_info> large(info, sizeof info + 16, 7);
  EXPECT_EQ(kvc_plan_query(plan, large.get()), KVC_OK);
  EXPECT_EQ(large.get()->struct_size, sizeof info + 16);
  auto *behind = reinterpret_cast<unsigned char *>(large.get() + 1);
  EXPECT_EQ(std::count(behind, behind + 16, 0), 16);
}
