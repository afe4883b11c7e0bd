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
#endif
  inside =
      fibers::make_fcontext(static_cast<char *>(stack) + bytes, bytes, enter);
}

void Fiber::enter(fibers::transfer_t from) {
  Fiber &fiber = *static_cast<Fiber *>(from.data);
  fiber.outside = from.fctx;
#ifdef KVC_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &fiber.outerStack,
                                  &fiber.outerBytes);
#endif
  fiber.function(fiber.argument);
}

void Fiber::resume() {
#ifdef KVC_ASAN
  __sanitizer_start_switch_fiber(&fakeOutside, stack, bytes);
#endif
  fibers::transfer_t back = fibers::jump_fcontext(inside, this);
#ifdef KVC_ASAN
  __sanitizer_finish_switch_fiber(fakeOutside, nullptr, nullptr);
#endif
  inside = back.fctx;
}

void Fiber::leave(bool forGood) {
#ifdef KVC_ASAN
  __sanitizer_start_switch_fiber(forGood ? nullptr : &fakeInside, outerStack,
                                 outerBytes);
#else
  (void)forGood;
#endif
  fibers::transfer_t again = fibers::jump_fcontext(outside, nullptr);
#ifdef KVC_ASAN
  __sanitizer_finish_switch_fiber(fakeInside, &outerStack, &outerBytes);
#endif
  outside = again.fctx;
}
