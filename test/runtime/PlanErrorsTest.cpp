// What a plan refuses, each by a manifest or an argument of its own.

#include "test/runtime/PlannedLayer.h"

#include <cmath>
#include <string>

namespace {

/// A policy of one kernel.
std::string manifestOf(const std::string &args = "\"k\"",
                       const std::string &grid = "1",
                       const std::string &buffers = "",
                       const std::string &lse = "null",
                       const std::string &ofVariant = "") {
  return R"({"format": 2, "policy": "test", "queries": 4, "window": 4,
    "lse_buffer": )" +
         lse + R"(, "scores": null, "params": {}, "buffers": [)" + buffers +
         R"(], "variants": [{"head_dim": 64, "group": 2, "dtype": "f32",
    "vector": 4, )" +
         ofVariant +
         R"("kernels": [{"name": "score", "kind": "columns", "phase": "score", "block": 32,
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
  Opened longest(manifestOf());
  longest.options.max_tokens = KVC_MAX_COUNT + 1;
  EXPECT_EQ(longest.create(), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(Opened::error(),
            "max_tokens must be at most 536870911, got 536870912");
}

TEST(PlanErrors, Types) {
  Opened unknown(manifestOf());
  unknown.options.dtype = kvc_dtype(7);
  EXPECT_EQ(unknown.create(), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Opened::error(),
            "dtype must be 0 (f32), 1 (f16) or 2 (bf16), got 7");
}

TEST(PlanErrors, ScratchBuffers) {
  Opened large(manifestOf(
      "\"k\"", "1",
      R"({"bytes": 4000000000, "dims": ["tokens", "tokens", "tokens"], "live": [0, 0]})"));
  EXPECT_EQ(large.create(), KVC_EXCEEDS_LIMITS);
  EXPECT_EQ(Opened::error(),
            "the workspace must be at most 281474976710656 bytes, scratch "
            "buffer 0 of max_batch 1 and max_tokens 100 takes more");
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

/// What another variant of the policy reads nobody brings.
TEST(PlanErrors, InputsAreThoseOfTheVariant) {
  std::string ours = manifestOf(), theirs = manifestOf("\"k_raw\", \"wo\"");
  size_t at = ours.find("{\"head_dim\"");
  std::string other = theirs.substr(at, theirs.rfind("]}") - at);
  other.replace(other.find("\"group\": 2"), 10, "\"group\": 4");
  ours.insert(at, other + ", ");
  Opened two(ours);
  EXPECT_EQ(two.evict(), KVC_OK) << Opened::error();
  kvc_plan_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_plan_query(two.plan, &info), KVC_OK);
  EXPECT_EQ(info.inputs, 0u);
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

TEST(PlanErrors, Lengths) {
  for (const int32_t length : {0, -1, 101, INT32_MAX}) {
    Opened wrong(manifestOf());
    wrong.layer.lengths = &length;
    EXPECT_EQ(wrong.evict(), KVC_EXCEEDS_LIMITS);
    EXPECT_EQ(Opened::error(),
              "sequence 0: the length must be 1 to 100 (tokens), got " +
                  std::to_string(length));
  }
}

TEST(PlanErrors, GivenIndicesAscendInsideThePrompt) {
  int32_t length = 100, counts[2] = {1, 3}, offsets[2] = {};
  for (auto [kept, said] :
       {std::pair{std::array{5, 5, 9}, "5 behind 5"},
        {std::array{-1, 2, 3}, "-1 first"},
        {std::array{7, 8, 100}, "100 behind 8"},
        {std::array{7, 1 << 30, 9}, "1073741824 behind 7"}}) {
    Opened given(manifestOf());
    ASSERT_EQ(given.create(), KVC_OK) << Opened::error();
    int32_t indices[6] = {0};
    std::copy(kept.begin(), kept.end(), indices + 3);
    given.layer.lengths = &length;
    given.layer.indices = indices;
    given.layer.index_capacity = 3;
    given.layer.counts = counts;
    given.layer.offsets = offsets;
    EXPECT_EQ(kvc_compact(given.plan, &given.layer, nullptr), KVC_BAD_ARGUMENT);
    EXPECT_EQ(Opened::error(),
              "sequence 0, head 1: indices must ascend below T "
              "(100), got " +
                  std::string(said));
    counts[0] = -2;
    EXPECT_EQ(kvc_compact(given.plan, &given.layer, nullptr), KVC_BAD_ARGUMENT);
    EXPECT_EQ(Opened::error(),
              "sequence 0, head 0: counts must be 0 or more, got -2");
    counts[0] = 1;
    // What a list has no place for is nobody's.
    given.layer.index_capacity = 1;
    EXPECT_EQ(kvc_compact(given.plan, &given.layer, nullptr), KVC_OK);
  }
}

TEST(PlanErrors, NumbersAreAligned) {
  auto refuses = [](auto &&change, const std::string &name) {
    Opened odd(manifestOf());
    alignas(4) char memory[16] = {};
    change(odd.layer, memory + 2);
    EXPECT_EQ(odd.evict(), KVC_MISALIGNED) << name;
    EXPECT_EQ(Opened::error().find(name + " must be aligned to 4 bytes, got "),
              0u)
        << Opened::error();
  };
  auto words = [](char *at) { return reinterpret_cast<int32_t *>(at); };
  auto floats = [](char *at) { return reinterpret_cast<float *>(at); };
  refuses([&](auto &layer, char *at) { layer.budgets = words(at); }, "budgets");
  refuses([&](auto &layer, char *at) { layer.since = words(at); }, "since");
  refuses([&](auto &layer, char *at) { layer.rope = floats(at); }, "rope");
  refuses([&](auto &layer, char *at) { layer.row_states.data = floats(at); },
          "row_states");
  refuses([&](auto &layer, char *at) { layer.row_states_out = floats(at); },
          "row_states_out");
  refuses([&](auto &layer, char *at) { layer.into_states.data = floats(at); },
          "into_states");
}

TEST(PlanErrors, RowsArePackedElsewhere) {
  Opened same(manifestOf());
  same.layer.k_out = const_cast<void *>(same.layer.k.data);
  EXPECT_EQ(same.evict(), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Opened::error(), "k_out must not be k's memory, which is read "
                             "while rows are written");
}

TEST(PlanErrors, Outputs) {
  Opened odd(manifestOf());
  odd.layer.v_out = odd.memory + 4;
  EXPECT_EQ(odd.evict(), KVC_MISALIGNED);
  EXPECT_EQ(Opened::error().find("v_out must be aligned to 16 bytes, got "), 0u)
      << Opened::error();
}

TEST(PlanErrors, HostAlignment) {
  // What the artefact says; strides are those of the GPU all the same.
  Opened host(manifestOf("\"k\"", "1", "", "null", "\"host_alignment\": 4, "));
  host.layer.k.data = host.memory + 4;
  EXPECT_EQ(host.evict(), KVC_OK) << Opened::error();
  kvc_plan_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_plan_query(host.plan, &info), KVC_OK);
  EXPECT_EQ(info.row_alignment, 4u);
  host.layer.k.data = host.memory + 2;
  EXPECT_EQ(kvc_layer_evict(host.plan, &host.layer, nullptr), KVC_MISALIGNED);
  EXPECT_EQ(Opened::error().find("k must be aligned to 4 bytes, got "), 0u)
      << Opened::error();
  host.layer.k.data = host.memory;
  host.layer.k.row_stride = 66;
  EXPECT_EQ(kvc_layer_evict(host.plan, &host.layer, nullptr), KVC_MISALIGNED);
  EXPECT_EQ(Opened::error(),
            "strides of k must be multiples of 4 elements, got 66");
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

TEST(PlanErrors, NewQueries) {
  // One of its last two queries at least, and as many as are new.
  std::string text = manifestOf();
  auto replace = [&](const std::string &from, const std::string &to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("\"queries\": 4",
          R"("queries": "all", "least_queries": 2, "states": ["mass", "age"])");
  Opened all(text);
  kvc_plan_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(all.create(), KVC_OK) << Opened::error();
  ASSERT_EQ(kvc_plan_query(all.plan, &info), KVC_OK);
  EXPECT_EQ(info.queries, KVC_ALL_QUERIES);
  EXPECT_EQ(info.inputs, unsigned(KVC_READS_NEW_QUERIES));
  EXPECT_EQ(info.least_queries, 2u);
  EXPECT_EQ(info.row_states, 2u);
  int32_t lengths[] = {50}, fresh[] = {1};
  auto evict = [&](Opened &opened, int32_t count, uint32_t rows) {
    fresh[0] = count;
    opened.layer.tokens = 50;
    opened.layer.lengths = lengths;
    opened.layer.new_queries = fresh;
    opened.layer.q_rows = rows;
    return kvc_layer_evict(opened.plan, &opened.layer, nullptr);
  };
  EXPECT_EQ(evict(all, 1, 2), KVC_OK) << Opened::error();
  EXPECT_EQ(evict(all, 0, 2), KVC_OK) << Opened::error();
  EXPECT_EQ(evict(all, 50, 50), KVC_OK) << Opened::error();
  EXPECT_EQ(evict(all, 1, 1), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Opened::error(),
            "policy 'test' reads the last 2 queries, got q_rows 1");
  EXPECT_EQ(evict(all, 7, 6), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Opened::error(),
            "policy 'test' reads the last 7 queries, got q_rows 6");
  EXPECT_EQ(evict(all, 51, 51), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Opened::error(),
            "sequence 0: new_queries must be 0 to T (50), got 51");
  EXPECT_EQ(evict(all, -1, 6), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Opened::error(),
            "sequence 0: new_queries must be 0 to T (50), got -1");
  all.layer.new_queries = nullptr;
  all.layer.q_rows = 49;
  EXPECT_EQ(kvc_layer_evict(all.plan, &all.layer, nullptr), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Opened::error(),
            "policy 'test' reads the last 50 queries, got q_rows 49");
  replace("\"least_queries\": 2", "\"least_queries\": 0");
  Opened none(text);
  ASSERT_EQ(none.create(), KVC_OK) << Opened::error();
  EXPECT_EQ(evict(none, 0, 0), KVC_BAD_ARGUMENT);
  EXPECT_EQ(Opened::error(), "q_rows must be at least 1, got 0");
}

// One way of calling serves all policies: what none of its kernels prepares is not looked
// at, as an address without bytes is none.
TEST(PlanErrors, NothingIsPrepared) {
  Opened none(manifestOf("\"wo\""));
  none.layer.wo = {none.memory, 256, 64, 256};
  none.layer.hidden = 1;
  none.layer.prepared = none.memory + 1;
  EXPECT_EQ(none.evict(), KVC_OK) << Opened::error();
  EXPECT_EQ(kvc_layer_prepare(none.plan, &none.layer, nullptr), KVC_OK)
      << Opened::error();
}
