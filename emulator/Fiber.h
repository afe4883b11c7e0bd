//===- Fiber.h - a function on a stack of its own --------------------------===//

#ifndef KVC_EMULATOR_FIBER_H
#define KVC_EMULATOR_FIBER_H

#include <boost/context/detail/fcontext.hpp>

#include <cstddef>

namespace kvc::rt {

/// Runs a function until it leaves, and later on from there.
class Fiber {
public:
  using Function = void (*)(void *argument);

  /// `function` begins at the first resume; it ends by leave(true).
  void start(void *stack, size_t bytes, Function function, void *argument);
  /// Into the fiber, until it leaves.
  void resume();
  /// Called within it: back to where it was resumed.
  void leave(bool forGood);
  /// Called within it: into another one that has left or not begun, which is as if it
  /// had been resumed in this one's place.
  void switchTo(Fiber &next);

private:
  boost::context::detail::fcontext_t inside = nullptr, outside = nullptr;
  void *stack = nullptr, *argument = nullptr;
  size_t bytes = 0;
  Function function = nullptr;
  // What AddressSanitizer wants to know of stacks.
  [[maybe_unused]] void *fakeInside = nullptr;
  [[maybe_unused]] const void *outerStack = nullptr;
  [[maybe_unused]] size_t outerBytes = 0;

  /// What a fiber is told as it goes on: which one it is, and which one it takes the place
  /// of, if it is not resumed from outside.
  struct Turn {
    Fiber *fiber, *from;
  };
  static void enter(boost::context::detail::transfer_t from);
  static Fiber &arrive(boost::context::detail::transfer_t from);
};

} // namespace kvc::rt

#endif // KVC_EMULATOR_FIBER_H
