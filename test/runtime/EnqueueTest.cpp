// What a call does on its way to the device: slots, grids, order, and no allocation.

#include "kvc/host.h"
#include "runtime/base/Failure.h"
#include "runtime/plan/Plan.h"
#include "test/runtime/Allocations.h"
#include "test/runtime/OneLayer.h"

#include <gtest/gtest.h>

using namespace kvc::rt;
using kvc::test::allocations;

namespace {

struct Launched {
  uint32_t kernel, block;
  std::array<uint32_t, 3> grid;
  std::array<uint64_t, 8> args;
};

/// Writes down what it is asked to launch.
class Recorder : public Device {
public:
  void launch(const Launch &launch, void *) override {
    Launched &next = launched[count++];
    next = {launch.kernel, launch.block, launch.grid, {}};
    std::copy(launch.args.begin(), launch.args.end(), next.args.begin());
  }
  void *allocate(size_t) override { return nullptr; }
  void release(void *) override {}
  void upload(void *, const void *, size_t) override {}
  void download(void *, const void *, size_t) override {}
  void clear(void *, size_t) override {}
  void synchronize() override {}
  bool onHost() const override { return true; }
  bool multipliesByWarpgroups(uint32_t) const override { return false; }

  size_t count = 0;
  std::array<Launched, 8> launched;
};

void nothing(kvc_simt_thread *, const uint64_t *) {}
const kvc_host_entry kernels[] = {
    {"other", nothing, 0, nullptr, 0},  {"weights", nothing, 0, nullptr, 0},
    {"lse", nothing, 0, nullptr, 0},    {"score", nothing, 0, nullptr, 0},
    {"select", nothing, 0, nullptr, 0}, {"compact", nothing, 0, nullptr, 0}};

/// `values`: further arguments of the kernel that lists kept rows. `above`: the most tokens
/// of calls that go without the scores' kernel.
std::string manifestOf(const std::string &values, const std::string &limit) {
  std::string text =
      R"json({"format": 2, "policy": "test", "queries": 4,
  "window": 4, "lse_buffer": 1, "scores": null, "params": {},
  "buffers": [{"bytes": 4, "dims": ["tokens"], "live": [1, 4]},
              {"bytes": 4, "dims": ["q_heads"], "live": [1, 4]},
              {"bytes": 80, "dims": ["batch", "q_heads"], "live": [0, 2]},
              {"bytes": 4, "dims": ["batch"], "live": [0, 2]}],
  "variants": [
   {"head_dim": 128, "group": 2, "dtype": "f32", "vector": 4, "kernels": [
    {"name": "other", "kind": "rows", "phase": "select", "block": 32,
     "grid": ["1", "1", "1"], "args": [], "skipped_with_lse": false}]},
   {"head_dim": 64, "group": 2, "dtype": "f32", "vector": 4, "kernels": [
    {"name": "weights", "kind": "gram", "phase": "prepare", "block": 32,
     "grid": ["kv_heads", "1", "batch"], "args": ["wo", "scratch.2", "scratch.3"],
     "skipped_with_lse": false},
    {"name": "lse", "kind": "statistics", "phase": "score", "block": 32,
     "grid": ["1", "1", "1"], "args": ["lse"], "skipped_with_lse": true},
    {"name": "score", "kind": "columns", "phase": "score", "block": 64, LIMIT
     "grid": ["ceildiv(tokens,32)", "kv_heads", "batch"],
     "args": ["k_head", "scratch.0", "logit_scale", "lse", "lse_scale",
              "scratch.2", "scratch.3"],
     "skipped_with_lse": false},
    {"name": "select", "kind": "rows", "phase": "select", "block": 32,
     "grid": ["kv_heads", "1", "batch"], "args": ["indices"VALUES],
     "skipped_with_lse": false},
    {"name": "compact", "kind": "compact", "phase": "compact", "block": 32,
     "grid": ["index_capacity", "1", "1"], "args": ["v"],
     "skipped_with_lse": false}]}]})json";
  text.replace(text.find("LIMIT"), 5, limit);
  return text.replace(text.find("VALUES"), 6, values);
}

class Enqueue : public testing::Test {
public:
  void SetUp() override { open(""); }

  void open(const std::string &values, const std::string &limit = "") {
    plan.reset();
    manifest = manifestOf(values, limit);
    kvc_artifact artifact = kvc::test::artifactOf(manifest, kernels);
    kvc_target target = {};
    kvc_enable_host();
    module = std::make_unique<kvc_module>(artifact, target);
    auto device = std::make_unique<Recorder>();
    recorder = device.get();
    module->device = std::move(device);
    kvc_plan_options options = kvc::test::limits();
    options.max_tokens = 1000;
    plan = std::make_unique<kvc_plan>(*module, options);
    layer.k = layer.v = layer.q = {memory, 0, 640, 64};
    layer.wo = {weights, 0, 64, 256};
    layer.hidden = 16;
    layer.indices = kept;
    layer.index_capacity = 50;
    layer.workspace = memory;
    layer.workspace_bytes = sizeof memory;
    layer.scale = 2;
  }

  void givePrepared() {
    layer.prepared = prepared;
    layer.prepared_bytes = sizeof prepared;
  }

  std::string manifest;
  std::unique_ptr<kvc_module> module;
  std::unique_ptr<kvc_plan> plan;
  Recorder *recorder;
  int32_t number = 1, kept[2 * 50] = {};
  alignas(256) char memory[1 << 14], weights[1 << 14], prepared[1024];
  kvc_layer_args layer = kvc::test::layerOf(memory, &number);
};

float asFloat(uint64_t slot) { return std::bit_cast<float>(uint32_t(slot)); }
uint64_t address(const void *pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

} // namespace

TEST_F(Enqueue, LaunchesInOrderWithItsArguments) {
  plan->enqueue(layer, Phase::Score, Phase::Compact, nullptr);
  ASSERT_EQ(recorder->count, 5u);
  for (uint32_t i = 0; i < 5; ++i) // the first is another variant's
    EXPECT_EQ(recorder->launched[i].kernel, i + 1);
  const Launched &score = recorder->launched[2];
  EXPECT_EQ(score.grid, (std::array<uint32_t, 3>{4, 2, 1}));
  EXPECT_EQ(score.block, 64u);
  EXPECT_EQ(score.args[0], 640u);
  EXPECT_EQ(score.args[1], address(memory));
  EXPECT_FLOAT_EQ(asFloat(score.args[2]), 2.8853901f); // 2 log2(e)
  EXPECT_EQ(score.args[3], address(memory) + 4096);    // behind 1000 floats
  EXPECT_EQ(asFloat(score.args[4]), 1.0f);
  // Behind these 4 query heads' numbers, of one sequence, and that of the sequence.
  EXPECT_EQ(score.args[5], address(memory) + 4096 + 256);
  EXPECT_EQ(score.args[6], address(memory) + 4096 + 256 + 512);
  EXPECT_EQ(recorder->launched[4].grid[0], 50u);
}

TEST_F(Enqueue, TakesTheCallersLogSumExp) {
  float lse[16] = {};
  layer.lse = lse;
  layer.lse_rows = 4;
  givePrepared();
  plan->enqueue(layer, Phase::Score, Phase::Score, nullptr);
  ASSERT_EQ(recorder->count, 1u); // without the kernel that computes it
  EXPECT_EQ(recorder->launched[0].args[3], address(lse));
  EXPECT_FLOAT_EQ(asFloat(recorder->launched[0].args[4]), 1.442695f);
}

TEST_F(Enqueue, CutsALayerIntoPhases) {
  plan->enqueue(layer, Phase::Select, Phase::Select, nullptr);
  ASSERT_EQ(recorder->count, 1u);
  EXPECT_EQ(recorder->launched[0].kernel, 4u);
  plan->enqueue(layer, Phase::Compact, Phase::Compact, nullptr);
  EXPECT_EQ(recorder->launched[1].kernel, 5u);
}

// The kernel that lists kept rows moves them where a call selects and compacts.
TEST_F(Enqueue, LeavesTheCompactionToWhoListsKeptRows) {
  EXPECT_EQ(plan->query().launches, 5u);
  open(R"(, "v", "moves")");
  EXPECT_EQ(plan->query().launches, 4u);
  plan->enqueue(layer, Phase::Score, Phase::Compact, nullptr);
  ASSERT_EQ(recorder->count, 4u);
  EXPECT_EQ(recorder->launched[3].kernel, 4u);
  EXPECT_EQ(recorder->launched[3].args[2], 1u);
  // Not in a call of its own, which needs no values.
  const void *values = layer.v.data;
  layer.v.data = nullptr;
  plan->enqueue(layer, Phase::Score, Phase::Select, nullptr);
  ASSERT_EQ(recorder->count, 8u);
  EXPECT_EQ(recorder->launched[7].args[2], 0u);
  EXPECT_THROW(plan->enqueue(layer, Phase::Select, Phase::Compact, nullptr),
               Failure);
  layer.v.data = values;
  recorder->count = 0;
  plan->enqueue(layer, Phase::Compact, Phase::Compact, nullptr);
  ASSERT_EQ(recorder->count, 1u);
  EXPECT_EQ(recorder->launched[0].kernel, 5u);
}

// As many tokens as a call has, not its plan; the plan says how many it may have.
TEST_F(Enqueue, LeavesOutWhatIsForLongerCalls) {
  open("", "\"above_tokens\": 99,");
  EXPECT_EQ(layer.tokens, 100u);
  EXPECT_EQ(plan->query().launches, 5u);
  plan->enqueue(layer, Phase::Score, Phase::Compact, nullptr);
  EXPECT_EQ(recorder->count, 5u);
  open("", "\"above_tokens\": 100,");
  EXPECT_EQ(plan->query().launches, 5u);
  plan->enqueue(layer, Phase::Score, Phase::Compact, nullptr);
  ASSERT_EQ(recorder->count, 4u);
  EXPECT_EQ(recorder->launched[1].kernel, 2u);
  EXPECT_EQ(recorder->launched[2].kernel, 4u);
  open("", "\"above_tokens\": 1000,");
  EXPECT_EQ(plan->query().launches, 4u);
}

TEST_F(Enqueue, LeavesOutWhatIsForShorterCalls) {
  open("", "\"up_to_tokens\": 100,");
  EXPECT_EQ(plan->query().launches, 4u);
  plan->enqueue(layer, Phase::Score, Phase::Compact, nullptr);
  EXPECT_EQ(recorder->count, 5u);
  open("", "\"above_tokens\": 50, \"up_to_tokens\": 99,");
  plan->enqueue(layer, Phase::Score, Phase::Compact, nullptr);
  ASSERT_EQ(recorder->count, 4u);
  EXPECT_EQ(recorder->launched[2].kernel, 4u);
}

// By a call of its own, of one sequence, whatever else a layer has.
TEST_F(Enqueue, PreparesWeightsAlone) {
  EXPECT_EQ(plan->query().prepared_bytes, 512u + 256);
  kvc_layer_args args = {};
  args.struct_size = sizeof args;
  args.wo = layer.wo;
  args.hidden = layer.hidden;
  args.prepared = prepared;
  args.prepared_bytes = sizeof prepared;
  plan->prepare(args, nullptr);
  ASSERT_EQ(recorder->count, 1u);
  const Launched &made = recorder->launched[0];
  EXPECT_EQ(made.kernel, 1u);
  EXPECT_EQ(made.grid, (std::array<uint32_t, 3>{2, 1, 1}));
  EXPECT_EQ(made.args[0], address(weights));
  EXPECT_EQ(made.args[1], address(prepared));
  EXPECT_EQ(made.args[2], address(prepared) + 512);
}

TEST_F(Enqueue, TakesWhatIsPrepared) {
  givePrepared();
  plan->enqueue(layer, Phase::Score, Phase::Compact, nullptr);
  ASSERT_EQ(recorder->count, 4u); // without the kernel that makes it
  EXPECT_EQ(recorder->launched[0].kernel, 2u);
  const Launched &score = recorder->launched[1];
  EXPECT_EQ(score.args[1], address(memory));
  EXPECT_EQ(score.args[5], address(prepared));
  EXPECT_EQ(score.args[6], address(prepared) + 512);
}

TEST_F(Enqueue, RefusesWhatCannotBePrepared) {
  auto refusal = [&](auto call) -> std::string {
    try {
      call();
    } catch (const Failure &failure) {
      EXPECT_EQ(recorder->count, 0u);
      return failure.what();
    }
    return "";
  };
  auto ofLayer = [&] {
    return refusal(
        [&] { plan->enqueue(layer, Phase::Score, Phase::Score, nullptr); });
  };
  auto ofWeights = [&] {
    return refusal([&] { plan->prepare(layer, nullptr); });
  };
  EXPECT_EQ(ofWeights(), "prepared must not be null");
  givePrepared();
  layer.prepared_bytes = 767;
  for (const std::string &text : {ofLayer(), ofWeights()})
    EXPECT_EQ(text, "prepared must have 768 bytes, got 767");
  givePrepared();
  layer.prepared = prepared + 8;
  for (const std::string &text : {ofLayer(), ofWeights()})
    EXPECT_EQ(text.rfind("prepared must be aligned to 16 bytes, got 0x", 0), 0u)
        << text;
  givePrepared();
  layer.batch = 2;
  layer.wo.batch_stride = 4096;
  int32_t numbers[] = {1, 1};
  layer.lengths = layer.budgets = numbers;
  kvc_plan_options options = plan->options;
  options.max_batch = 2;
  plan = std::make_unique<kvc_plan>(*module, options);
  EXPECT_EQ(ofLayer(),
            "wo.batch_stride must be 0 where prepared is given, which "
            "is of one projection, got 4096");
  layer.hidden = 0;
  EXPECT_EQ(ofWeights(), "hidden must be at least 1, got 0");
}

// Engines capture it in a CUDA graph, and call it for every layer.
TEST_F(Enqueue, AllocatesNothing) {
  size_t before = allocations;
  plan->enqueue(layer, Phase::Score, Phase::Compact, nullptr);
  EXPECT_EQ(allocations - before, 0u);
}

// The last kernel's grid does not fit: none is launched.
TEST_F(Enqueue, LaunchesAllOrNothing) {
  layer.index_capacity = UINT32_MAX;
  EXPECT_THROW(plan->enqueue(layer, Phase::Score, Phase::Compact, nullptr),
               Failure);
  EXPECT_EQ(recorder->count, 0u);
}
