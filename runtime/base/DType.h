//===- DType.h - element types of caches and weights ----------------------===//
//
// The one place that knows how wide a kvc_dtype is and what it is called. Single
// 16-bit values: Half.h.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_BASE_DTYPE_H
#define KVC_RUNTIME_BASE_DTYPE_H

#include "kvc/kvc.h"

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace kvc::rt {

/// "f32", "f16" or "bf16".
const char *dtypeName(kvc_dtype dtype);
std::optional<kvc_dtype> parseDtype(std::string_view name);
size_t dtypeBytes(kvc_dtype dtype);

/// `count` elements at `from`, which need not be aligned, exactly.
void widen(float *to, const std::byte *from, size_t count, kvc_dtype dtype);
std::vector<float> widened(const std::byte *from, size_t count,
                           kvc_dtype dtype);
std::vector<double> toDouble(const std::byte *from, size_t count,
                             kvc_dtype dtype);
/// To nearest even. `to` need not be aligned.
void narrow(std::byte *to, const float *values, size_t count, kvc_dtype dtype);
std::vector<std::byte> narrow(const float *values, size_t count,
                              kvc_dtype dtype);

} // namespace kvc::rt

#endif // KVC_RUNTIME_BASE_DTYPE_H
