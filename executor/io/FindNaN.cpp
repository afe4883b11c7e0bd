//===- FindNaN.cpp - whether a tensor holds NaN ---------------------------===//

#include "executor/io/FindNaN.h"

#include "runtime/base/DType.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <limits>
#include <thread>

using namespace kvc::rt;

/// The first element whose bits, but for the sign, are above those of `infinity`.
template <typename Bits>
static int64_t firstAbove(const std::byte *data, size_t all, Bits infinity) {
  auto isAbove = [&](size_t i) {
    Bits bits;
    std::memcpy(&bits, data + i * sizeof bits, sizeof bits);
    return Bits((bits & std::numeric_limits<Bits>::max()) > infinity);
  };
  // A part at a time, as a rule without any: a loop that never ends early is one over
  // vectors, and reads as fast as memory goes.
  constexpr size_t part = 4096;
  for (size_t first = 0; first < all; first += part) {
    size_t end = std::min(first + part, all);
    Bits any = 0;
    for (size_t i = first; i < end; ++i)
      any |= isAbove(i);
    for (size_t i = first; any && i < end; ++i)
      if (isAbove(i))
        return int64_t(i);
  }
  return -1;
}

static int64_t firstNaN(const std::byte *data, size_t all, kvc_dtype dtype) {
  if (dtype == KVC_F32)
    return firstAbove<int32_t>(data, all, 0x7f800000);
  return firstAbove<int16_t>(data, all, dtype == KVC_F16 ? 0x7c00 : 0x7f80);
}

int64_t kvc::rt::findNaN(const TensorView &tensor, kvc_dtype dtype) {
  // Of a mapped file that nobody has read yet most of the time goes to pages.
  constexpr size_t leastBytes = size_t(4) << 20;
  size_t all = tensor.elements(), cores = std::thread::hardware_concurrency(),
         parts = std::clamp<size_t>(tensor.bytes / leastBytes, 1,
                                    std::max<size_t>(cores, 1)),
         part = (all + parts - 1) / parts;
  std::vector<std::future<int64_t>> found;
  for (size_t first = 0; first < all; first += part) {
    // The first part is this thread's, and others where there is no thread for them.
    auto policy = std::launch::deferred;
    if (first)
      policy |= std::launch::async;
    found.push_back(std::async(policy, [=, data = tensor.data] {
      return firstNaN(data + first * dtypeBytes(dtype),
                      std::min(part, all - first), dtype);
    }));
  }
  int64_t result = -1;
  for (size_t i = 0; i < found.size(); ++i)
    if (int64_t at = found[i].get(); at >= 0 && result < 0)
      result = int64_t(i * part) + at;
  return result;
}
