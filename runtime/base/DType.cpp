//===- DType.cpp - element types of caches and weights --------------------===//

#include "runtime/base/DType.h"

#include "runtime/base/Half.h"

#include <cstring>

using namespace kvc::rt;

const char *kvc::rt::dtypeName(kvc_dtype dtype) {
  switch (dtype) {
  case KVC_F32:
    return "f32";
  case KVC_F16:
    return "f16";
  case KVC_BF16:
    return "bf16";
  }
  return "of no known type"; // an enum of the C ABI may hold anything
}

std::optional<kvc_dtype> kvc::rt::parseDtype(std::string_view name) {
  for (kvc_dtype dtype : {KVC_F32, KVC_F16, KVC_BF16})
    if (name == dtypeName(dtype))
      return dtype;
  return std::nullopt;
}

size_t kvc::rt::dtypeBytes(kvc_dtype dtype) { return dtype == KVC_F32 ? 4 : 2; }

/// Calls `store(i, value)` for each element.
template <typename Store>
static void read(const std::byte *from, size_t count, kvc_dtype dtype,
                 Store store) {
  auto each = [&]<typename Bits>(auto asFloat, Bits bits) {
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
      store(i, asFloat(bits));
    }
  };
  if (dtype == KVC_F32)
    each([](float x) { return x; }, float());
  else if (dtype == KVC_F16)
    each(fromF16, uint16_t());
  else
    each(fromBF16, uint16_t());
}

void kvc::rt::widen(float *to, const std::byte *from, size_t count,
                    kvc_dtype dtype) {
  read(from, count, dtype, [to](size_t i, float value) { to[i] = value; });
}

std::vector<float> kvc::rt::widened(const std::byte *from, size_t count,
                                    kvc_dtype dtype) {
  std::vector<float> floats(count);
  widen(floats.data(), from, count, dtype);
  return floats;
}

std::vector<double> kvc::rt::toDouble(const std::byte *from, size_t count,
                                      kvc_dtype dtype) {
  std::vector<double> doubles(count);
  read(from, count, dtype, [&](size_t i, float value) { doubles[i] = value; });
  return doubles;
}

void kvc::rt::narrow(std::byte *to, const float *values, size_t count,
                     kvc_dtype dtype) {
  if (dtype == KVC_F32) {
    if (count)
      std::memcpy(to, values, count * sizeof(float));
    return;
  }
  auto each = [&](auto toBits) {
    for (size_t i = 0; i < count; ++i) {
      uint16_t bits = toBits(values[i]);
      std::memcpy(to + i * 2, &bits, 2);
    }
  };
  // A loop each: several at a time then.
  if (dtype == KVC_F16)
    each([](float value) { return toF16(value); });
  else
    each([](float value) { return toBF16(value); });
}

std::vector<std::byte> kvc::rt::narrow(const float *values, size_t count,
                                       kvc_dtype dtype) {
  std::vector<std::byte> narrowed(count * dtypeBytes(dtype));
  narrow(narrowed.data(), values, count, dtype);
  return narrowed;
}
