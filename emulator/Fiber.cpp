//===- Fiber.cpp ----------------------------------------------------------===//

#include "emulator/Fiber.h"

#if defined(__SANITIZE_ADDRESS__)
#define KVC_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVC_ASAN 1
#endif
#endif
#ifdef KVC_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

using namespace kvc::rt;
namespace fibers = boost::context::detail;

void Fiber::start(void *onStack, size_t ofBytes, Function begin, void *with) {
  stack = onStack;
  bytes = ofBytes;
  function = begin;
  argument = with;
#ifdef KVC_ASAN
  __asan_unpoison_memory_region(stack, bytes);
  fakeInside = nullptr;
#endif
  inside =
      fibers::make_fcontext(static_cast<char *>(stack) + bytes, bytes, enter);
}

/// Where the others are is what the one who goes on, and is returned, has to note.
Fiber &Fiber::arrive(fibers::transfer_t from) {
  Turn turn = *static_cast<Turn *>(from.data); // it lies on the other's stack
  Fiber &fiber = *turn.fiber;
  if (turn.from) {
    turn.from->inside = from.fctx;
    fiber.outside = turn.from->outside;
  } else {
    fiber.outside = from.fctx;
  }
#ifdef KVC_ASAN
  // Outside is where the first of them was resumed.
  __sanitizer_finish_switch_fiber(fiber.fakeInside,
                                  turn.from ? nullptr : &fiber.outerStack,
                                  turn.from ? nullptr : &fiber.outerBytes);
#endif
  return fiber;
}

void Fiber::enter(fibers::transfer_t from) {
  Fiber &fiber = arrive(from);
  fiber.function(fiber.argument);
}

void Fiber::resume() {
  Turn turn{this, nullptr};
#ifdef KVC_ASAN
  void *fakeOutside = nullptr;
  __sanitizer_start_switch_fiber(&fakeOutside, stack, bytes);
#endif
  fibers::transfer_t back = fibers::jump_fcontext(inside, &turn);
#ifdef KVC_ASAN
  __sanitizer_finish_switch_fiber(fakeOutside, nullptr, nullptr);
#endif
  // Not this one, if it has switched.
  static_cast<Fiber *>(back.data)->inside = back.fctx;
}

void Fiber::leave(bool forGood) {
#ifdef KVC_ASAN
  __sanitizer_start_switch_fiber(forGood ? nullptr : &fakeInside, outerStack,
                                 outerBytes);
#else
  (void)forGood;
#endif
  arrive(fibers::jump_fcontext(outside, this));
}

void Fiber::switchTo(Fiber &next) {
  Turn turn{&next, this};
#ifdef KVC_ASAN
  next.outerStack = outerStack;
  next.outerBytes = outerBytes;
  __sanitizer_start_switch_fiber(&fakeInside, next.stack, next.bytes);
#endif
  arrive(fibers::jump_fcontext(next.inside, &turn));
}
