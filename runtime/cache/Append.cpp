//===- Append.cpp - new rows behind those of a cache ----------------------===//

#include "runtime/cache/Append.h"

#include "runtime/base/Boundary.h"
#include "runtime/base/DType.h"
#include "runtime/base/Half.h"
#include "runtime/device/Targets.h"

#include <cmath>
#include <cstring>

using namespace kvc::rt;

namespace {

/// The new rows of one head of one sequence.
struct NewRows {
  const std::byte *data;
  int64_t rowBytes;

  NewRows(const kvc_rows &rows, uint32_t s, uint32_t g, size_t bytes)
      : data(static_cast<const std::byte *>(rows.data) +
             (s * rows.batch_stride + g * rows.head_stride) * int64_t(bytes)),
        rowBytes(rows.row_stride * int64_t(bytes)) {}
  const std::byte *operator[](uint32_t row) const {
    return data + row * rowBytes;
  }
};

/// Writes a key divided by its norm, which is returned; 0 stays 0.
float writeUnit(std::byte *to, const std::byte *from, uint32_t dim,
                kvc_dtype dtype) {
  float key[KVC_MAX_HEAD_DIM];
  widen(key, from, dim, dtype);
  double squares = 0;
  for (uint32_t i = 0; i < dim; ++i)
    squares += double(key[i]) * key[i];
  auto norm = float(std::sqrt(squares));
  for (uint32_t i = 0; i < dim; ++i)
    key[i] = norm != 0 ? key[i] / norm : key[i];
  narrow(to, key, dim, dtype);
  return norm;
}

} // namespace

static void appendTo(const CacheView &cache, const kvc_append_args &args,
                     uint32_t s, uint32_t g) {
  const kvc_cache_view &view = cache.fields();
  size_t bytes = dtypeBytes(view.dtype), rowBytes = bytes * view.head_dim;
  HeadPlane keys = cache.keys(s, g), values = cache.values(s, g);
  HeadPlane positions = cache.positions(s, g);
  NewRows newKeys(args.k, s, g, bytes), newValues(args.v, s, g, bytes);
  auto there = uint32_t(cache.count(s, g));
  const kvc_member_table *members = cache.members();
  for (uint32_t i = 0; i < args.rows; ++i) {
    uint32_t row = there + i;
    int32_t position = cache.length(s) + int32_t(i);
    std::memcpy(values[row], newValues[i], rowBytes);
    if (positions)
      std::memcpy(positions[row], &position, sizeof position);
    if (!members) {
      std::memcpy(keys[row], newKeys[i], rowBytes);
      continue;
    }
    size_t entry = cache.membersAt(s, g) + size_t(cache.memberCount(s, g)++);
    members->rows[entry] = int32_t(row);
    members->positions[entry] = position;
    members->norms[entry] =
        writeUnit(keys[row], newKeys[i], view.head_dim, view.dtype);
  }
}

void kvc::rt::append(const kvc_append_args &args) {
  checkTarget(args.target, "target");
  CacheView cache(args.cache);
  const kvc_cache_view &view = cache.fields();
  notNull(args.k.data, "k");
  notNull(args.v.data, "v");
  aligned(args.k.data, dtypeBytes(view.dtype), "k");
  aligned(args.v.data, dtypeBytes(view.dtype), "v");
  if (args.rows == 0 || args.rows > INT32_MAX)
    throw fail(KVC_BAD_ARGUMENT, "rows must be 1 to {}, got {}", INT32_MAX,
               args.rows);
  if (args.target != KVC_HOST)
    return appendOnDevice(args, cache);
  cache.checkRoom(args.rows);
  for (uint32_t s = 0; s < view.batch; ++s)
    for (uint32_t g = 0; g < view.kv_heads; ++g)
      appendTo(cache, args, s, g);
  // Heads may share a count, and a count may be the length: each is set, not added to.
  for (uint32_t s = 0; s < view.batch; ++s) {
    int32_t length = cache.length(s) + int32_t(args.rows);
    uint32_t heads = view.counts.head_stride ? view.kv_heads : 1;
    for (uint32_t g = 0; g < heads; ++g)
      cache.setCount(s, g, cache.count(s, g) + int32_t(args.rows));
    if (view.lengths)
      view.lengths[s] = length;
  }
}
