// kvc_attend and kvc_append on a GPU, over caches in its own memory.

#include "executor/cuda/Queue.h"
#include "runtime/kernels/AttentionState.h"
#include "test/runtime/AttendJudge.h"
#include "test/runtime/NewRows.h"

#include <gtest/gtest.h>

using namespace kvc;
using namespace kvc::test;

namespace {

/// What a cache and calls over it hold, on the device; and back.
class OnDevice {
public:
  OnDevice(gpu::Queue &queue, Laid &laid) : queue(queue), laid(laid) {
    view = laid.view;
    copy(laid.memory);
    for (auto *numbers : all())
      copy(*numbers);
    for (void **pointer : {&view.k.data, &view.v.data, &view.positions.data})
      *pointer = translated(*pointer);
    for (auto **pointer : {&view.counts.data, &view.offsets.data,
                           &view.table.data, &view.v_table.data, &view.lengths})
      *pointer = translated(*pointer);
  }
  kvc_cache_view view;

  /// The same place in device memory, of what was copied; null stays null.
  template <typename T> T *translated(T *host) const {
    auto *at = reinterpret_cast<const std::byte *>(host);
    for (const Copy &c : copies)
      if (at >= c.host && at < c.host + c.buffer.bytes())
        return reinterpret_cast<T *>(static_cast<std::byte *>(c.buffer.data()) +
                                     (at - c.host));
    EXPECT_EQ(host, nullptr) << "not on the device";
    return nullptr;
  }
  template <typename T> T *copy(std::vector<T> &values) {
    if (values.empty())
      return nullptr;
    copies.push_back({reinterpret_cast<const std::byte *>(values.data()),
                      queue.uploaded(values)});
    return translated(values.data());
  }
  template <typename T> void fetch(std::vector<T> &values) const {
    if (!values.empty())
      queue.download(values.data(), translated(values.data()),
                     values.size() * sizeof(T));
  }
  void fetchCache() const {
    fetch(laid.memory);
    for (auto *numbers : all())
      fetch(*numbers);
  }

private:
  struct Copy {
    const std::byte *host;
    gpu::Buffer buffer;
  };
  gpu::Queue &queue;
  Laid &laid;
  std::vector<Copy> copies;

  std::array<std::vector<int32_t> *, 6> all() const {
    return {&laid.counts, &laid.lengths, &laid.offsets,
            &laid.table,  &laid.vTable,  &laid.positions};
  }
};

class View : public testing::TestWithParam<kvc_dtype> {
public:
  gpu::Queue queue{0, GetParam()};
  Random random{3};
  std::vector<int32_t> status = {0};

  void append(NewRows &rows, OnDevice &device) {
    kvc_append_args args = rows.args;
    args.target = KVC_CUDA;
    args.stream = queue.stream();
    args.cache = &device.view;
    args.k.data = device.copy(rows.kBytes);
    args.v.data = device.copy(rows.vBytes);
    args.status = device.copy(status);
    ASSERT_EQ(kvc_append(&args), KVC_OK) << lastError();
    device.fetchCache();
    device.fetch(status);
    EXPECT_EQ(status[0], 0);
  }
  void attend(Call &call, OnDevice &device) {
    kvc_attend_args args = call.args;
    args.target = KVC_CUDA;
    args.stream = queue.stream();
    args.cache = &device.view;
    size_t bytes = 0;
    ASSERT_EQ(kvc_attend_workspace(&args, &bytes), KVC_OK) << lastError();
    gpu::Buffer workspace(queue, bytes);
    args.workspace = bytes ? workspace.data() : nullptr;
    args.workspace_bytes = bytes;
    args.q.data = device.copy(call.qBytes);
    args.out.data = device.copy(call.out);
    args.lse = device.copy(call.lse);
    args.status = device.copy(status);
    ASSERT_EQ(kvc_attend(&args), KVC_OK) << lastError();
    device.fetch(call.out);
    device.fetch(call.lse);
    device.fetch(status);
    EXPECT_EQ(status[0], 0);
  }
};

} // namespace

TEST_P(View, AppendThenAttend) {
  for (Layout layout : layouts)
    for (uint32_t dim : {36, 64}) {
      SCOPED_TRACE(testing::Message() << int(layout) << " dim " << dim);
      Cache cache = randomCache(random, 2, 2, dim, GetParam(), 60);
      Laid laid(cache, layout, 8, 24);
      Cache now = cache;
      for (uint32_t n : {1, 20}) { // few query rows and many
        OnDevice device(queue, laid);
        NewRows rows(random, now, n);
        append(rows, device);
        Cache next = rows.grown();
        expectSame(laid.read(), next);
        Call call(random, next, 4, n, n == 1 ? GetParam() : KVC_F32);
        attend(call, device);
        expectRight(call, next, weightRounding(GetParam()));
        now = next;
      }
    }
}

// Prompts, whole or the last tokens of them, negated logits too: more query rows than one
// warp or four that multiply together have; dimensions that fill a kernel's width or not.
TEST_P(View, SweepsAPromptCausally) {
  for (uint32_t dim : {64, 72, 128, 200})
    for (uint32_t n : {60, 200}) {
      SCOPED_TRACE(testing::Message() << "dim " << dim << ", " << n);
      Cache cache = wholeCache(random, 1, 2, dim, GetParam(), 400);
      while (cache.lengths[0] < 260) // more than two tiles of keys
        cache = wholeCache(random, 1, 2, dim, GetParam(), 400);
      Laid laid(cache, dim == 128 ? Layout::PagesHND : Layout::TokensFirst, 16);
      Call call(random, cache, 3, n, KVC_F32, true);
      call.args.scale = dim == 72 ? -0.1f : 0.0f;
      OnDevice device(queue, laid);
      attend(call, device);
      expectRight(call, cache, weightRounding(GetParam()));
    }
}

// Parts of several blocks are added up by a second launch.
TEST_P(View, SplitsTheKeysOfLongHeads) {
  Cache cache = randomCache(random, 1, 3, 128, GetParam(), 1500);
  cache.head(0, 1) = {};
  Laid laid(cache, Layout::PagesHND, 16);
  Call call(random, cache, 4, 2, KVC_F32);
  call.args.max_rows = 1500;
  OnDevice device(queue, laid);
  attend(call, device);
  expectRight(call, cache, weightRounding(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Gpu, View, testing::Values(KVC_F32, KVC_F16, KVC_BF16),
                         [](const auto &info) {
                           return std::string(rt::dtypeName(info.param));
                         });
