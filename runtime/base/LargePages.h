//===- LargePages.h - memory for rows, in large pages ---------------------===//

#ifndef KVC_RUNTIME_BASE_LARGEPAGES_H
#define KVC_RUNTIME_BASE_LARGEPAGES_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>

#include <sys/mman.h>

namespace kvc::rt {

/// Aligned as device memory is, to 256 bytes; what is large, to pages of 2 MiB, so that it
/// may lie in such: whoever first writes it meets a fault for each page, and faults of
/// pages of 4 KiB take longer than the writing. Null where there is no memory;
/// std::free gives it back.
inline void *allocateLarge(size_t bytes) {
  constexpr size_t page = size_t(2) << 20;
  size_t alignment = bytes < 2 * page ? 256 : page;
  size_t room = (bytes + alignment) / alignment * alignment;
  void *memory = std::aligned_alloc(alignment, room);
#ifdef MADV_HUGEPAGE
  if (memory && alignment == page) // refused where the system has none
    madvise(memory, room, MADV_HUGEPAGE);
#endif
  return memory;
}

/// Of a vector whose elements somebody writes: they are not set to 0 first.
template <typename T> struct LargePages {
  static_assert(std::is_trivially_default_constructible_v<T>);
  using value_type = T;

  LargePages() = default;
  template <typename U> LargePages(const LargePages<U> &) {}
  T *allocate(size_t count) {
    void *memory = count > SIZE_MAX / 2 / sizeof(T)
                       ? nullptr
                       : allocateLarge(count * sizeof(T));
    if (!memory)
      throw std::bad_alloc();
    return static_cast<T *>(memory);
  }
  void deallocate(T *memory, size_t) { std::free(memory); }
  template <typename U> void construct(U *) {}
  template <typename U, typename... Values>
  void construct(U *place, Values &&...values) {
    new (place) U(static_cast<Values &&>(values)...);
  }
  template <typename U> bool operator==(const LargePages<U> &) const {
    return true;
  }
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_BASE_LARGEPAGES_H
