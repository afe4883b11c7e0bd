//===- AttendCall.h - a call of kvc_attend, and a table of members --------===//

#ifndef KVC_TEST_RUNTIME_ATTENDCALL_H
#define KVC_TEST_RUNTIME_ATTENDCALL_H

#include "kvc/attend.h"
#include "runtime/base/DType.h"
#include "test/runtime/SmallCache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace kvc::test {

/// Queries, and room for what comes out: [batch, q_heads, n, d] or [batch, n, q_heads,
/// d].
struct Call {
  Call(Random &random, const Cache &cache, uint32_t group, uint32_t n,
       kvc_dtype outType, bool tokensFirst = false)
      : dim(cache.dim), qHeads(cache.heads * group), n(n), dtype(cache.dtype) {
    size_t rows = size_t(cache.batch) * qHeads * n;
    for (size_t i = 0; i < rows; ++i)
      q.push_back(randomRow(random, dim, dtype));
    args.struct_size = sizeof args;
    args.q_heads = qHeads;
    args.queries = n;
    int64_t d = dim;
    kvc_plane strides = {nullptr, qHeads * n * d, n * d, d, 0};
    if (tokensFirst)
      strides = {nullptr, qHeads * n * d, d, qHeads * d, 0};
    args.out = strides;
    args.q = {nullptr, strides.batch_stride, strides.head_stride,
              strides.row_stride};
    args.out_dtype = outType;
    args.lse_batch_stride = qHeads * n;
    args.lse_head_stride = n;
    qBytes.resize(rows * dim * rt::dtypeBytes(dtype));
    for (size_t i = 0; i < rows; ++i) {
      auto bytes = rt::narrow(q[i].data(), dim, dtype);
      std::memcpy(&qBytes[at(i) * rt::dtypeBytes(dtype)], bytes.data(),
                  bytes.size());
    }
    args.q.data = qBytes.data();
    out.resize(rows * dim * rt::dtypeBytes(outType));
    lse.resize(rows);
  }

  /// Elements in front of row i of [batch, q_heads, n].
  size_t at(size_t i) const {
    size_t j = i % n, h = i / n % qHeads, s = i / n / qHeads;
    return s * size_t(args.out.batch_stride) +
           h * size_t(args.out.head_stride) + j * size_t(args.out.row_stride);
  }

  kvc_status run(const kvc_cache_view &view) {
    args.cache = &view;
    args.out.data = out.data();
    args.lse = lse.data();
    std::fill(out.begin(), out.end(), std::byte{0xff});
    std::fill(lse.begin(), lse.end(), 7.0f);
    size_t bytes = 0;
    EXPECT_EQ(kvc_attend_workspace(&args, &bytes), KVC_OK) << lastError();
    workspace.assign(bytes + 64, std::byte{0xff});
    auto address = reinterpret_cast<uintptr_t>(workspace.data());
    args.workspace = workspace.data() + (64 - address % 64) % 64;
    args.workspace_bytes = bytes;
    return kvc_attend(&args);
  }

  std::vector<float> outRow(size_t i) const {
    return rt::widened(&out[at(i) * rt::dtypeBytes(args.out_dtype)], dim,
                       args.out_dtype);
  }

  uint32_t dim, qHeads, n;
  kvc_dtype dtype;
  std::vector<std::vector<float>> q;
  std::vector<std::byte> qBytes, out, workspace;
  std::vector<float> lse;
  kvc_attend_args args = {};
};

/// A key is seen from its position on.
struct Seen {
  int32_t position;
  std::vector<double> k, v;
};

/// A table of members of random rows and positions, and what they stand for.
struct Members {
  Members(Random &random, const Cache &cache, uint32_t capacity)
      : capacity(capacity), heads(cache.heads), rope(ropeOf(300, cache.dim)) {
    size_t lists = size_t(cache.batch) * cache.heads;
    rows.assign(lists * capacity, -1);
    positions = rows;
    norms.assign(rows.size(), NAN);
    for (size_t list = 0; list < lists; ++list) {
      size_t there = cache.all[list].k.size();
      auto length = uint32_t(cache.lengths[list / cache.heads]);
      counts.push_back(there ? int32_t(random() % capacity) : 0);
      for (size_t i = list * capacity;
           i < list * capacity + size_t(counts.back()); ++i) {
        rows[i] = int32_t(random() % there);
        positions[i] = int32_t(random() % length); // in no order
        norms[i] = float(random() % 100) / 50;
      }
    }
    table.struct_size = sizeof table;
    table.rows = rows.data();
    table.positions = positions.data();
    table.norms = norms.data();
    table.counts = counts.data();
    table.capacity = capacity;
  }

  std::vector<Seen> keysOf(const Cache &cache, uint32_t s, uint32_t g) const {
    std::vector<Seen> keys;
    const Head &head = cache.head(s, g);
    size_t list = s * heads + g;
    for (size_t i = list * capacity; i < list * capacity + size_t(counts[list]);
         ++i) {
      auto row = size_t(rows[i]), half = size_t(cache.dim / 2);
      Seen key = {positions[i],
                  std::vector<double>(cache.dim),
                  {head.v[row].begin(), head.v[row].end()}};
      for (size_t d = 0; d < half; ++d) {
        const float *turn = &rope[(size_t(positions[i]) * half + d) * 2];
        double a = head.k[row][d], b = head.k[row][d + half], norm = norms[i];
        key.k[d] = norm * (a * turn[0] - b * turn[1]);
        key.k[d + half] = norm * (b * turn[0] + a * turn[1]);
      }
      keys.push_back(key);
    }
    return keys;
  }

  uint32_t capacity, heads;
  std::vector<int32_t> rows, positions, counts;
  std::vector<float> norms, rope;
  kvc_member_table table = {};
};

} // namespace kvc::test

#endif // KVC_TEST_RUNTIME_ATTENDCALL_H
