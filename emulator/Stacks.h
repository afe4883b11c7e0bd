//===- Stacks.h - stacks of fibers ----------------------------------------===//

#ifndef KVC_EMULATOR_STACKS_H
#define KVC_EMULATOR_STACKS_H

#include <cstddef>

namespace kvc::rt {

/// Stacks of the fibers of one block.
class StackPool {
public:
  StackPool(size_t count, size_t stackBytes);
  ~StackPool();
  StackPool(const StackPool &) = delete;
  StackPool &operator=(const StackPool &) = delete;
  /// The lowest address of stack `i`.
  void *stack(size_t i) const {
    return static_cast<char *>(memory) + i * pitch;
  }

  const size_t count, stackBytes;

private:
  /// From stack to stack.
  const size_t pitch;
  void *memory;
};

/// At least so many, of at least so many bytes each. They are the running
/// operating-system thread's, kept for its lifetime: new ones at every launch would be
/// pages that the system has to clear. Throws Failure where there is no memory.
const StackPool &stacksFor(size_t count, size_t stackBytes);

} // namespace kvc::rt

#endif // KVC_EMULATOR_STACKS_H
