//===- Bytes.h - rows of a cache, as bytes --------------------------------===//

#ifndef KVC_EXECUTOR_IO_BYTES_H
#define KVC_EXECUTOR_IO_BYTES_H

#include "runtime/base/LargePages.h"

#include <vector>

namespace kvc::rt {

/// New ones are not set to 0.
using Bytes = std::vector<std::byte, LargePages<std::byte>>;

inline Bytes bytesOf(const std::vector<std::byte> &bytes) {
  return {bytes.begin(), bytes.end()};
}

} // namespace kvc::rt

#endif // KVC_EXECUTOR_IO_BYTES_H
