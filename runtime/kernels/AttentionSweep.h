//===- AttentionSweep.h - query rows against a list of keys ---------------===//
//
// Online softmax (Milakov and Gimelshein 2018; Dao et al. 2022) over tiles of keys and
// values, which come to the block's memory while the tile before is multiplied. A
// block has attentionWarps() warps. Where there are many query rows every warp has 16 or
// 32 of its own, and all keys of the tile; where there are few all warps have the same 16
// rows and keys of their own, wait for nobody, and are added up at the end. With 32 rows a
// warp there are two tiles in turn and one barrier for each; else one, of which the keys
// of the next come behind the logits and the values behind the sums. Where four warps
// multiply together there are three tiles and two warpgroups, half a tile apart.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_ATTENTIONSWEEP_H
#define KVC_RUNTIME_KERNELS_ATTENTIONSWEEP_H

#include "runtime/kernels/AttentionTile.h"
#include "runtime/kernels/KeyRun.h"
#include "runtime/kernels/WarpgroupTile.h"

namespace kvc::gpu {

/// Where a key of a list lies. `position`: queries from that one on see it.
template <typename E> struct KeyPlace {
  const E *k, *v; // rows of d elements; null: there is no key
  int32_t position;
  float norm;
  /// Null: k is as it is. Else the key is norm * RoPE(k), by d / 2 cosines and sines.
  const float *turn;
};

/// The block's list of keys, as a sweep asks for it:
///   template <bool readsMembers> // false: there are none
///   KeyPlace<E> place(uint32_t i, bool withPosition) const;
///   bool run(uint32_t i, uint32_t many, KeyRun &run) const; // true: keys [i, i + many)
///                                                           // are rows as they lie
///   uint32_t inBoxes; // keys in front of it the bulk copy engine can bring
///   template <bool values, uint32_t panels, uint32_t many>
///   void ask(simt, PanelRows<E, many> into, uint32_t i, Arrivals arrival) const;
///                   // for keys, or values, [i, i + many)
///   uint32_t whole; // keys in front of it are seen by every row of the block
///   bool aligned;   // rows begin and end at multiples of 16 bytes
template <typename E, int D, Sharing sharing> class AttentionSweep {
  static constexpr bool sharesRows = sharing == Sharing::Rows,
                        readsMembers = sharesRows || sharing == Sharing::Keys,
                        together = sharing == Sharing::Keys64;

public:
  static constexpr uint32_t warps = attentionWarps(sizeof(E), D, sharing),
                            rowTiles = attentionRowTiles(sharing),
                            rows = attentionRows(sizeof(E), D, sharing);
  /// That a warp loads. Of a tile of more than 32, registers have no room for the logits
  /// of 32 rows.
  static constexpr uint32_t loaders = together ? 2 : 1,
                            warpKeys = together        ? warpgroupKeys(D) / 4
                                       : rowTiles == 2 ? 32 / warps
                                                       : 16,
                            tileKeys = warps / loaders * warpKeys,
                            stages = together        ? 3
                                     : rowTiles == 2 ? 2
                                                     : 1;
  using Tile = Conditional<together, PanelTile<E, D, int(tileKeys), int(rows)>,
                           KeyTile<E, D, int(tileKeys), int(stages)>>;
  using Rows = typename Tile::Rows;
  using Products =
      Conditional<together, WarpgroupTile<E, D, int(tileKeys)>,
                  AttentionTile<E, D, int(sharesRows ? warpKeys : tileKeys),
                                int(warps), int(rowTiles)>>;

  struct alignas(Tile) Shared {
    Tile tile; // in front of the sweep: queries; behind it: the rows' sums
    KeyPlace<E> places[loaders * stages][tileKeys];
    union {
      QueryRow<E> query;
      RowState state; // behind the sweep
    } rows[warps * rowTiles * 16];
    typename Products::Memory memory;
  };
  static constexpr uint32_t launchBytes =
      attentionLaunchBytes(sizeof(E), D, sharing);
  static_assert(sizeof(Shared) <= (launchBytes ? launchBytes : mostOwnMemory));

  AttentionSweep(const Simt &simt, Shared &shared, uint32_t d)
      : simt(simt), shared(shared), d(d), lane(simt.thread() % warpSize),
        warp(simt.thread() / warpSize), products(simt, shared.memory) {
    for (RowState &row : state)
      row = {lowest, 0};
  }

  /// The number in the block of one of this lane's rows.
  static constexpr uint32_t laneRows = 2 * rowTiles;
  uint32_t row(uint32_t i) const {
    return (sharesRows ? 0 : firstRow()) + lane / 4 + i * 8;
  }

  /// Sweeps keys [from, to). `rowsAligned`: queries begin and end at multiples of 16
  /// bytes. `scale` of the logits is not 0. All threads come.
  template <typename Keys>
  void run(const Keys &keys, uint32_t from, uint32_t to,
           const QueryRow<E> (&query)[laneRows], bool rowsAligned, float scale);

  /// Stores the block's rows, which are `rowsThere` of a KV head from `blockRow` on, or,
  /// where keys are split, what this split has of them. Output: AttentionState.h.
  template <typename Output>
  void finish(const Output &out, uint32_t blockRow, uint32_t rowsThere,
              bool isPart, uint32_t split);

private:
  template <typename Output>
  void storeOwn(const Output &out, uint32_t blockRow, uint32_t rowsThere,
                bool isPart, uint32_t split);
  template <typename Output>
  void storeShared(const Output &out, uint32_t blockRow, uint32_t rowsThere,
                   bool isPart, uint32_t split);
  const Simt &simt;
  Shared &shared;
  const uint32_t d, lane, warp;
  Products products;
  float o[rowTiles][D / 8][4] = {};
  RowState state[laneRows];

  /// Of the warp, in the block's memory.
  uint32_t firstRow() const { return warp * rowTiles * 16; }
  uint32_t firstKey() const { return warp % (warps / loaders) * warpKeys; }
  static constexpr uint32_t pieces = D * sizeof(E) / 16, // of a row
      pieceElements = 16 / sizeof(E);

  void meet() const {
    if constexpr (sharesRows)
      simt.syncWarp();
    else
      simt.barrier();
  }
  /// True where all keys of the warp are there, of the tile from `first` on.
  bool has(uint32_t first, uint32_t to) const {
    return first + firstKey() + warpKeys <= to;
  }
  template <typename Keys>
  KeyPlace<E> place(const Keys &keys, uint32_t first, uint32_t to) const {
    uint32_t i = first + firstKey() + lane % warpKeys;
    if (i >= to)
      return {};
    return keys.template place<readsMembers>(i, first + tileKeys > keys.whole);
  }
  /// A warp's keys.
  void tell(const KeyPlace<E> &place, uint32_t stage) {
    simt.syncWarp(); // the last places were used
    if (lane < warpKeys)
      shared.places[stage][firstKey() + lane] = place;
    simt.syncWarp();
  }
  /// True where the warp's keys of the tile from `first` on are whole rows in one run that
  /// every query sees, as nearly always: nobody needs to be told where each one lies.
  template <typename Keys>
  bool isRun(const Keys &keys, uint32_t first, uint32_t to, KeyRun &run) const {
    uint32_t i = first + firstKey();
    if constexpr (pieces > warpSize)
      return false;
    else
      return keys.aligned && d == D && has(first, to) &&
             i + warpKeys <= keys.whole && keys.run(i, warpKeys, run);
  }
  void loadRun(Rows to, const char *from, uint32_t stride) {
    if constexpr (pieces <= warpSize) {
      constexpr uint32_t step = warpSize / pieces;
      static_assert(warpKeys % step == 0);
      uint32_t row = lane / pieces, column = lane % pieces * pieceElements;
      from += uint64_t(row) * stride + column * sizeof(E);
      auto at = to.walk(row, column);
#pragma unroll
      for (uint32_t i = 0; i < warpKeys; i += step) {
        simt.copy(at.down(i), from);
        from += uint64_t(step) * stride;
      }
    }
  }
  void loadKeys(uint32_t stage, bool aligned, bool full);
  void loadValues(uint32_t stage, bool aligned, bool full);
  /// The whole tile from `first` on.
  template <typename Keys>
  void loadTile(const Keys &keys, uint32_t first, uint32_t to, uint32_t stage);
  /// Of a warp, `count` rows at(number), zeros behind their ends and where there is none;
  /// `full`: there are all.
  template <uint32_t count, typename To, typename At>
  void load(To to, bool aligned, bool full, At at);
  void loadQueries(const QueryRow<E> (&query)[laneRows], bool aligned,
                   bool negated);
  static void clear(E *to) {
    struct alignas(16) Piece {
      E at[pieceElements];
    };
    *reinterpret_cast<Piece *>(to) = {};
  }
  using Logits = float[rowTiles][Products::blocks][4];
  /// Of keys that a row does not see: minus infinity.
  template <typename Keys>
  void hide(Logits &c, const Keys &keys, uint32_t first, uint32_t to,
            uint32_t stage) const;
  /// The same where keys' positions ascend: a row sees the first ones of a tile.
  template <typename Keys>
  void hideBehind(Logits &c, const Keys &keys, uint32_t first, uint32_t to,
                  uint32_t stage) const;
  bool soften(Logits &c, float scale, float (&fade)[laneRows]);
  /// The sums of values.
  void weaken(const float (&fade)[laneRows]);
  void softmax(Logits &c, float scale) {
    float fade[laneRows];
    if (soften(c, scale, fade))
      weaken(fade);
  }
  template <typename Keys>
  void sweepInStages(const Keys &keys, uint32_t from, uint32_t to, float scale);
  template <typename Keys>
  void sweepInTurn(const Keys &keys, uint32_t from, uint32_t to, float scale);
  template <typename Keys>
  void sweepApart(const Keys &keys, uint32_t from, uint32_t to,
                  const QueryRow<E> (&query)[laneRows], bool rowsAligned,
                  float scale);
  /// `number`: of the warpgroup.
  template <uint32_t number, typename Keys>
  void sweepTogether(const Keys &keys, uint32_t from, uint32_t to,
                     bool rowsAligned, float scale);
};

template <typename E, int D, Sharing sharing>
template <typename Keys>
void AttentionSweep<E, D, sharing>::run(const Keys &keys, uint32_t from,
                                        uint32_t to,
                                        const QueryRow<E> (&query)[laneRows],
                                        bool rowsAligned, float scale) {
  if (lane % 4 == 0)
    for (uint32_t i = 0; i < laneRows; ++i)
      shared.rows[firstRow() + lane / 4 + i * 8].query = query[i];
  simt.syncWarp();
  if constexpr (together) {
    // Each has its own code: all it multiplies lies at constants then.
    if (from >= to)
      return;
    else if (simt.uniform(warp / 4))
      sweepTogether<1>(keys, from, to, rowsAligned, scale);
    else
      sweepTogether<0>(keys, from, to, rowsAligned, scale);
  } else
    sweepApart(keys, from, to, query, rowsAligned, scale);
}

template <typename E, int D, Sharing sharing>
template <typename Keys>
void AttentionSweep<E, D, sharing>::sweepApart(
    const Keys &keys, uint32_t from, uint32_t to,
    const QueryRow<E> (&query)[laneRows], bool rowsAligned, float scale) {
  // Queries leave room for keys, where those are as many.
  constexpr bool beside = stages == 1 && tileKeys >= warps * 16;
  if constexpr (beside) {
    tell(place(keys, from, to), 0);
    loadKeys(0, keys.aligned, has(from, to));
  }
  loadQueries(query, rowsAligned, scale < 0);
  if constexpr (!beside) {
    meet(); // queries of all warps were used
    tell(place(keys, from, to), 0);
    loadKeys(0, keys.aligned, has(from, to));
  }
  simt.commit();
  loadValues(0, keys.aligned, has(from, to));
  simt.commit();
  scale = (scale < 0 ? -scale : scale) * log2e;
  if constexpr (stages == 2)
    sweepInStages(keys, from, to, scale);
  else
    sweepInTurn(keys, from, to, scale);
}

template <typename E, int D, Sharing sharing>
template <typename Keys>
void AttentionSweep<E, D, sharing>::sweepInStages(const Keys &keys,
                                                  uint32_t from, uint32_t to,
                                                  float scale) {
  static_assert(!sharesRows);
  uint32_t stage = 0;
  for (uint32_t first = from; first < to; first += tileKeys, stage ^= 1) {
    simt.wait<0>();
    simt.barrier(); // this tile is there, the one before it was used
    if (uint32_t next = first + tileKeys; next < to)
      loadTile(keys, next, to, stage ^ 1);
    simt.commit();
    Logits c;
    products.scores(shared.tile.k(stage).rows, c);
    hide(c, keys, first, to, stage);
    softmax(c, scale);
    products.addValues(shared.tile.v(stage).rows, products.weights(c), o);
  }
}

template <typename E, int D, Sharing sharing>
template <typename Keys>
void AttentionSweep<E, D, sharing>::sweepInTurn(const Keys &keys, uint32_t from,
                                                uint32_t to, float scale) {
  const uint32_t own = sharesRows ? firstKey() : 0;
  for (uint32_t first = from; first < to; first += tileKeys) {
    uint32_t next = first + tileKeys;
    simt.wait<1>();
    meet(); // keys are there
    Logits c;
    products.scores(shared.tile.k(0).rows + own, c);
    hide(c, keys, first, to, 0);
    meet(); // keys and places were used
    KeyRun run;
    bool runs = next < to && isRun(keys, next, to, run);
    if (runs) {
      loadRun(shared.tile.k(0).from(firstKey()), run.k, run.kStride);
    } else if (next < to) {
      tell(place(keys, next, to), 0);
      loadKeys(0, keys.aligned, has(next, to));
    }
    simt.commit();
    softmax(c, scale);
    const auto &weights = products.weights(c);
    simt.wait<1>();
    meet(); // values are there
    products.addValues(shared.tile.v(0).rows + own, weights, o);
    meet(); // values were used
    if (runs)
      loadRun(shared.tile.v(0).from(firstKey()), run.v, run.vStride);
    else if (next < to)
      loadValues(0, keys.aligned, has(next, to));
    simt.commit();
  }
}

} // namespace kvc::gpu

#include "runtime/kernels/AttentionLoads.h"
#include "runtime/kernels/AttentionSoftmax.h"
#include "runtime/kernels/AttentionStores.h"
#include "runtime/kernels/AttentionTogether.h"

#endif // KVC_RUNTIME_KERNELS_ATTENTIONSWEEP_H
