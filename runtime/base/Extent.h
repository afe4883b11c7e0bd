//===- Extent.h - symbolic sizes of the manifest --------------------------===//

#ifndef KVC_RUNTIME_BASE_EXTENT_H
#define KVC_RUNTIME_BASE_EXTENT_H

#include <cstdint>
#include <map>
#include <string>

namespace kvc::rt {

using Symbols = std::map<std::string, uint64_t, std::less<>>;

/// Evaluates `n`, `symbol`, `a*b` and `ceildiv(a,b)`. Throws Failure
/// (KVC_BAD_ARTIFACT) on anything else, an unknown symbol or an overflow.
uint64_t evaluateExtent(const std::string &text, const Symbols &symbols);

} // namespace kvc::rt

#endif // KVC_RUNTIME_BASE_EXTENT_H
