//===- Random.h - seeded choices, the same on every platform --------------===//

#ifndef KVC_TEST_RANDOM_RANDOM_H
#define KVC_TEST_RANDOM_RANDOM_H

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

namespace kvc::random {

/// One step of splitmix64: a good hash of 64 bits.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class Random {
public:
  explicit Random(uint64_t seed) : state(mix(seed)) {}

  uint64_t next() { return mix(state++); }
  /// 0 to n - 1.
  int64_t below(int64_t n) { return int64_t(next() % uint64_t(n)); }
  int64_t between(int64_t least, int64_t most) {
    return least + below(most - least + 1);
  }
  bool chance(int64_t percent) { return below(100) < percent; }

  template <typename T> T of(std::initializer_list<T> items) {
    return *(items.begin() + below(int64_t(items.size())));
  }
  template <typename T> const T &of(const std::vector<T> &items) {
    return items[size_t(below(int64_t(items.size())))];
  }
  /// An index, by weights of which one at least is above 0.
  size_t weighted(const std::vector<int64_t> &weights) {
    int64_t sum = 0;
    for (int64_t weight : weights)
      sum += weight;
    int64_t at = below(sum);
    size_t i = 0;
    while (at >= weights[i])
      at -= weights[i++];
    return i;
  }

private:
  uint64_t state;
};

} // namespace kvc::random

#endif // KVC_TEST_RANDOM_RANDOM_H
