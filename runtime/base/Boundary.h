//===- Boundary.h - between the C ABI and what is behind it ---------------===//
//
// Every function of the C ABI runs in `guarded`, and copies its structs by `received`.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_BASE_BOUNDARY_H
#define KVC_RUNTIME_BASE_BOUNDARY_H

#include "runtime/base/Failure.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace kvc::rt {

/// The calling thread's, for kvc_last_error.
extern thread_local std::string lastError;

/// A size beyond this is no size.
constexpr size_t mostStructBytes = 1 << 16;

/// Runs `body`; whatever it throws becomes a status and a text.
template <typename Body> kvc_status guarded(Body body) noexcept {
  try {
    body();
    return KVC_OK;
  } catch (const Failure &failure) {
    lastError = failure.what();
    return failure.status;
  } catch (const std::exception &error) {
    lastError = error.what();
    return KVC_INTERNAL_ERROR;
  }
}

/// Structs grow at their ends. Fields that the caller does not have are 0 here; what
/// this runtime does not have must be 0 there.
template <typename T> void checkSize(const T *value, const char *name) {
  if (!value)
    throw fail(KVC_BAD_ARGUMENT, "{} must not be null", name);
  size_t size = value->struct_size;
  if (size < sizeof size)
    throw fail(KVC_ABI_MISMATCH, "{}.struct_size must be at least {}, got {}",
               name, sizeof size, size);
  if (size > mostStructBytes)
    throw fail(KVC_ABI_MISMATCH, "{}.struct_size must be at most {}, got {}",
               name, mostStructBytes, size);
}

template <typename T> T received(const T *value, const char *name) {
  checkSize(value, name);
  auto *bytes = reinterpret_cast<const unsigned char *>(value);
  for (size_t i = sizeof(T); i < value->struct_size; ++i)
    if (bytes[i])
      throw fail(KVC_ABI_MISMATCH,
                 "{} has {} bytes here and must be 0 behind them, got {} at "
                 "byte {}: a field of a newer kvc.h",
                 name, sizeof(T), bytes[i], i);
  T known = {};
  std::memcpy(&known, value, std::min(sizeof(T), value->struct_size));
  return known;
}

/// As much of `known` as the caller has room for; struct_size stays.
template <typename T> void hand(T *to, T known, const char *name) {
  checkSize(to, name);
  known.struct_size = to->struct_size;
  auto *bytes = reinterpret_cast<unsigned char *>(to);
  size_t common = std::min(sizeof(T), to->struct_size);
  std::memcpy(bytes, &known, common);
  std::fill(bytes + common, bytes + known.struct_size, 0);
}

/// What a caller has put into an enum, which may be none of its names: to read that as
/// an enum is undefined.
template <typename Enum> int numberOf(const Enum &value) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

template <typename T> void notNull(T *pointer, const char *name) {
  if (!pointer)
    throw fail(KVC_BAD_ARGUMENT, "{} must not be null", name);
}

/// Of what a call has no use for, and `why`.
inline void absent(const void *pointer, const char *name, const char *why) {
  if (pointer)
    throw fail(KVC_BAD_ARGUMENT, "{} must be null: {}", name, why);
}

inline void zero(uint32_t number, const char *name, const char *why) {
  if (number)
    throw fail(KVC_BAD_ARGUMENT, "{} must be 0: {}, got {}", name, why, number);
}

inline void aligned(const void *pointer, uint64_t bytes, const char *name) {
  if (reinterpret_cast<uintptr_t>(pointer) % bytes)
    throw fail(KVC_MISALIGNED, "{} must be aligned to {} bytes, got {}", name,
               bytes, pointer);
}

} // namespace kvc::rt

#endif // KVC_RUNTIME_BASE_BOUNDARY_H
