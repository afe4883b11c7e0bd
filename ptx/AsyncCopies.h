//===- AsyncCopies.h - copies to shared memory that are under way ---------===//
//
// cp.async of PTX, by thread: copies are begun, committed to a group, and waited
// for by group. Their bytes are read when the copy begins and land when the thread
// waits; until then the destination is NaN, so that a wait that is missing shows.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_ASYNCCOPIES_H
#define KVC_PTX_ASYNCCOPIES_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvc::ptx {

struct AsyncCopy {
  uint64_t to;
  uint32_t bytes;
  std::array<std::byte, 16> value;
};

/// Those of one thread.
class AsyncCopies {
public:
  void begin(const AsyncCopy &copy) { open.push_back(copy); }
  void commit() {
    groups.push_back(std::move(open));
    open.clear();
  }
  /// The groups that have to land for `pending` to be left, oldest first.
  template <typename Land> void wait(uint64_t pending, Land land) {
    if (groups.size() <= pending)
      return;
    auto last = groups.end() - ptrdiff_t(pending);
    for (auto group = groups.begin(); group != last; ++group)
      for (const AsyncCopy &copy : *group)
        land(copy);
    groups.erase(groups.begin(), last);
  }

private:
  std::vector<AsyncCopy> open;
  std::vector<std::vector<AsyncCopy>> groups; // few: a warp has 32 of these
};

} // namespace kvc::ptx

#endif // KVC_PTX_ASYNCCOPIES_H
