//===- WarpgroupTile.h - a warpgroup's products with keys and values ------===//
//
// 64 query rows of a warpgroup, 16 of each of its warps, against tiles of keys that all
// warpgroups of the block read. Products are begun and waited for: Warpgroup.h. What a lane
// holds is laid out as AttentionTile.h says.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_WARPGROUPTILE_H
#define KVC_RUNTIME_KERNELS_WARPGROUPTILE_H

#include "runtime/kernels/BulkCopies.h"
#include "runtime/kernels/Warpgroup.h"

namespace kvc::gpu {

/// The block's query rows, and three tiles of keys and of values in turn.
template <typename E, int D, int Keys, int QueryRows> struct PanelTile {
  using Rows = PanelRows<E, Keys>;
  using Queries = PanelRows<E, QueryRows>;
  static constexpr uint32_t stages = 3, queryBytes = QueryRows * D * sizeof(E),
                            tileBytes = Keys * D * sizeof(E);
  static_assert(queryBytes % 1024 == 0 && tileBytes % 1024 == 0);
  static constexpr uint32_t arrivals = queryBytes + 2 * stages * tileBytes;
  alignas(1024) char memory[arrivals + 2 * stages * Arrivals::bytes];

  Queries q() { return {memory, 0}; }
  Rows k(uint32_t stage) { return {memory, queryBytes + stage * tileBytes}; }
  Rows v(uint32_t stage) { return k(stages + stage); }
  /// Of tiles that the bulk copy engine brings, by stage.
  Arrivals keysCome() { return {memory, arrivals}; }
  Arrivals valuesCome() { return keysCome().at(stages); }
};

template <typename E, int D, int Keys> class WarpgroupTile {
public:
  static constexpr int blocks = Keys / 8; // of columns
  struct Memory {};

  WarpgroupTile(const Simt &simt, Memory &) : group(simt) {}

  /// c = q k^T, of the 64 rows of q. To be waited for.
  template <uint32_t queryRows>
  void beginScores(const PanelMatrix<E, queryRows> &q,
                   const PanelMatrix<E, Keys> &keys,
                   float (&c)[1][blocks][4]) const {
    group.template multiply<D>(q, keys, c[0]);
    group.commit();
  }

  /// What values are multiplied by, in half the registers.
  struct Weights {
    uint32_t a[Keys / 4];
  };
  static void narrowTo(Weights &weights, const float (&c)[1][blocks][4]) {
#pragma unroll
    for (int i = 0; i < Keys / 4; ++i)
      weights.a[i] =
          narrowPair<E>(c[0][i / 2][i % 2 * 2], c[0][i / 2][i % 2 * 2 + 1]);
  }

  /// o += weights * values. To be waited for.
  void beginValues(const PanelMatrix<E, Keys> &values, const Weights &weights,
                   float (&o)[1][D / 8][4]) const {
    constexpr int some = D < 128 ? D / 8 : 16; // blocks of columns at once
    auto of = [&](int t) -> auto & {
      return reinterpret_cast<float (&)[some][4]>(o[0][t]);
    };
    group.template add<Keys, 0>(weights.a, values, of(0));
    if constexpr (D > 128)
      group.template add<Keys, 128>(weights.a, values, of(16));
    group.commit();
  }

  Warpgroup group;
};

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_WARPGROUPTILE_H
