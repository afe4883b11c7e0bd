//===- AttentionSweep.h - query rows against a list of keys ---------------===//
//
// Online softmax (Milakov and Gimelshein 2018; Dao et al. 2022) over tiles of keys and
// values, which come to the block's memory while the tile before is multiplied. A
// block has attentionWarps() warps. Where there are many query rows every warp has 16 or
// 32 of its own, and all keys of the tile; where there are few all warps have the same 16
// rows and keys of their own, wait for nobody, and are added up at the end. With 32 rows a
// warp there are two tiles in turn and one barrier for each; else one, of which the keys
// of the next come behind the logits and the values behind the sums.
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
///   uint32_t whole; // keys in front of it are seen by every row of the block
///   bool aligned;   // rows begin and end at multiples of 16 bytes
template <typename E, int D, Sharing sharing> class AttentionSweep {
  static constexpr bool sharesRows = sharing == Sharing::Rows,
                        readsMembers =
                            sharesRows || sharing == Sharing::Keys,
                        together = sharing == Sharing::Keys64;

public:
  static constexpr uint32_t warps = attentionWarps(sizeof(E), D, sharing),
                            rowTiles = attentionRowTiles(sharing),
                            rows = attentionRows(sizeof(E), D, sharing);
  /// That a warp loads. Of a tile of more than 32, registers have no room for the logits
  /// of 32 rows.
  static constexpr uint32_t loaders = together ? 2 : 1,
                            warpKeys = together ? warpgroupKeys(D) / 4
                                       : rowTiles == 2 ? 32 / warps
                                                       : 16,
                            tileKeys = warps / loaders * warpKeys,
                            stages = together ? 3 : rowTiles == 2 ? 2 : 1;
  using Tile =
      Conditional<together, PanelTile<E, D, int(tileKeys), int(rows)>,
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
      for (uint32_t i = 0; i < warpKeys; i += step)
        simt.copy(at.down(i), from + uint64_t(i) * stride);
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
template <uint32_t count, typename To, typename At>
void AttentionSweep<E, D, sharing>::load(To to, bool aligned, bool full,
                                         At at) {
  if constexpr (pieces <= warpSize)
    if (aligned && full && d == D) { // as nearly always: nothing to look at
      constexpr uint32_t step = warpSize / pieces;
      static_assert(count % step == 0);
      uint32_t first = lane % pieces * pieceElements;
#pragma unroll
      for (uint32_t i = 0; i < count; i += step) {
        uint32_t row = lane / pieces + i;
        simt.copy(to.at(row, first), at(row) + first);
      }
      return;
    }
  if (aligned) {
#pragma unroll 1
    for (uint32_t i = lane; i < count * pieces; i += warpSize) {
      uint32_t row = i / pieces, first = i % pieces * pieceElements;
      const E *from = at(row);
      if (from && first < d)
        simt.copy(to.at(row, first), from + first);
      else
        clear(to.at(row, first));
    }
    return;
  }
#pragma unroll 1
  for (uint32_t i = lane; i < count * D; i += warpSize) {
    const E *from = at(i / D);
    *to.at(i / D, i % D) = from ? loadOne(from, i % D, d) : E();
  }
}

template <typename E, int D, Sharing sharing>
void AttentionSweep<E, D, sharing>::loadValues(uint32_t stage, bool aligned,
                                               bool full) {
  const KeyPlace<E> *places = shared.places[stage] + firstKey();
  load<warpKeys>(shared.tile.v(stage).from(firstKey()), aligned, full,
                 [&](uint32_t i) { return places[i].v; });
}

template <typename E, int D, Sharing sharing>
void AttentionSweep<E, D, sharing>::loadKeys(uint32_t stage, bool aligned,
                                             bool full) {
  Rows to = shared.tile.k(stage).from(firstKey());
  const KeyPlace<E> *places = shared.places[stage] + firstKey();
  if (!readsMembers || !simt.any(places[lane % warpKeys].turn))
    return load<warpKeys>(to, aligned, full,
                          [&](uint32_t i) { return places[i].k; });
  uint32_t half = d / 2;
#pragma unroll 1
  for (uint32_t i = lane; i < warpKeys * D; i += warpSize) {
    const KeyPlace<E> &place = places[i / D];
    uint32_t j = i % D, pair = j < half ? j : j - half;
    float value = 0;
    if (place.k && j < d) {
      value = widen(loaded(place.k + j));
      if (place.turn) {
        float x = widen(loaded(place.k + pair)),
              y = widen(loaded(place.k + pair + half)),
              cosine = loaded(place.turn + 2 * pair),
              sine = loaded(place.turn + 2 * pair + 1);
        value = place.norm *
                (j < half ? x * cosine - y * sine : y * cosine + x * sine);
      }
    }
    *to.at(i / D, j) = narrow<E>(value);
  }
}

/// Through the end of the tile, a tile of rows of each warp at a time.
template <typename E, int D, Sharing sharing>
void AttentionSweep<E, D, sharing>::loadQueries(
    const QueryRow<E> (&query)[laneRows], bool aligned, bool negated) {
  Rows through = {shared.tile.rows + (Tile::count - warps * 16) + warp * 16};
  if constexpr (sizeof(E) == 4)
    return products.loadQueries(0, through.rows, query, d, negated);
#pragma unroll
  for (uint32_t tile = 0; tile < rowTiles; ++tile) {
    uint32_t first = firstRow() + tile * 16;
    load<16>(through, aligned, /*full=*/true,
             [&](uint32_t i) { return shared.rows[first + i].query.q; });
    simt.commit();
    simt.wait<0>();
    simt.syncWarp();
    products.loadQueries(int(tile), through.rows, query, d, negated);
    simt.syncWarp();
  }
}

template <typename E, int D, Sharing sharing>
template <typename Keys>
void AttentionSweep<E, D, sharing>::loadTile(const Keys &keys, uint32_t first,
                                             uint32_t to, uint32_t stage) {
  KeyRun run;
  if (isRun(keys, first, to, run)) {
    loadRun(shared.tile.k(stage).from(firstKey()), run.k, run.kStride);
    loadRun(shared.tile.v(stage).from(firstKey()), run.v, run.vStride);
    return;
  }
  tell(place(keys, first, to), stage);
  loadKeys(stage, keys.aligned, has(first, to));
  loadValues(stage, keys.aligned, has(first, to));
}

template <typename E, int D, Sharing sharing>
template <typename Keys>
void AttentionSweep<E, D, sharing>::hide(Logits &c, const Keys &keys,
                                         uint32_t first, uint32_t to,
                                         uint32_t stage) const {
  if (first + tileKeys <= to && first + tileKeys <= keys.whole)
    return;
  const uint32_t own = sharesRows ? firstKey() : 0, column = lane % 4 * 2;
#pragma unroll
  for (uint32_t i = 0; i < laneRows; ++i) {
    int32_t position =
        shared.rows[firstRow() + lane / 4 + i * 8].query.position;
#pragma unroll
    for (int t = 0; t < Products::blocks; ++t)
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j) {
        uint32_t key = own + uint32_t(t) * 8 + column + j;
        bool seen = first + key < to &&
                    (first + key < keys.whole ||
                     shared.places[stage][key].position <= position);
        float &x = c[i / 2][t][i % 2 * 2 + j];
        x = seen ? x : -__builtin_inff();
      }
  }
}

template <typename E, int D, Sharing sharing>
template <typename Keys>
void AttentionSweep<E, D, sharing>::hideBehind(Logits &c, const Keys &keys,
                                               uint32_t first, uint32_t to,
                                               uint32_t stage) const {
  if (first + tileKeys <= to && first + tileKeys <= keys.whole)
    return;
  const uint32_t there = to - first < tileKeys ? to - first : tileKeys,
                 whole = keys.whole > first ? keys.whole - first : 0;
#pragma unroll
  for (uint32_t i = 0; i < laneRows; ++i) {
    int32_t position =
        shared.rows[firstRow() + lane / 4 + i * 8].query.position;
    uint32_t seen = whole < there ? whole : there, end = there;
    while (seen < end) {
      uint32_t middle = seen + (end - seen) / 2;
      if (shared.places[stage][middle].position <= position)
        seen = middle + 1;
      else
        end = middle;
    }
    const uint32_t left = i % 2 * 2;
#pragma unroll
    for (uint32_t t = 0; t < uint32_t(Products::blocks); ++t)
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j) {
        float &x = c[i / 2][t][left + j];
        x = t * 8 + lane % 4 * 2 + j < seen ? x : -__builtin_inff();
      }
  }
}

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
  }
  else
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

/// Of a power of two numbers, the result of all by neighbours.
template <uint32_t count, typename Both>
float treeOf(const float (&of)[count], Both both) {
  float some[count];
#pragma unroll
  for (uint32_t i = 0; i < count; ++i)
    some[i] = of[i];
#pragma unroll
  for (uint32_t step = 1; step < count; step *= 2)
#pragma unroll
    for (uint32_t i = 0; i + step < count; i += 2 * step)
      some[i] = both(some[i], some[i + step]);
  return some[0];
}

template <typename E, int D, Sharing sharing>
template <uint32_t number, typename Keys>
void AttentionSweep<E, D, sharing>::sweepTogether(
    const Keys &keys, uint32_t from, uint32_t to, bool rowsAligned,
    float scale) {
  const auto &group = products.group;
  auto queries = shared.tile.q(), own = queries.from(number * 64);
  // The first warpgroup loads keys, the other one values.
  const uint32_t most = to < keys.whole ? to : keys.whole; // that may be in a run
  const char *at = nullptr;
  uint32_t stride = 0, until = 0; // of the run that the last tile was, else 0
  auto loadOwn = [&](uint32_t first, uint32_t stage) {
    Rows into = number ? shared.tile.v(stage) : shared.tile.k(stage);
    into = into.from(firstKey());
    uint32_t behind = first + firstKey() + warpKeys;
    at += uint64_t(tileKeys) * stride;
    bool runs = behind <= until;
    if (KeyRun run; !runs && isRun(keys, first, to, run)) {
      at = number ? run.v : run.k;
      stride = number ? run.vStride : run.kStride;
      until = run.until < most ? run.until : most;
      runs = true;
    }
    if (runs)
      return loadRun(into, at, stride);
    until = 0;
    uint32_t list = number * stages + stage;
    tell(place(keys, first, to), list);
    const KeyPlace<E> *places = shared.places[list] + firstKey();
    load<warpKeys>(into, keys.aligned, has(first, to), [&](uint32_t i) {
      return number ? places[i].v : places[i].k;
    });
  };
  auto arrive = [&] { // what was asked for is there, and what is behind was used
    simt.wait<0>();
    group.publish();
    simt.barrier();
  };
  load<16>(queries.from(firstRow()), rowsAligned, /*full=*/true,
           [&](uint32_t i) { return shared.rows[firstRow() + i].query.q; });
  loadOwn(from, 0);
  simt.commit();
  if (scale < 0) {
    simt.wait<0>();
    simt.syncWarp();
    for (uint32_t i = lane; i < 16 * D; i += warpSize)
      queries.at(firstRow() + i / D, i % D)->bits ^= 0x8000;
  }
  scale = (scale < 0 ? -scale : scale) * log2e;
  arrive();
  Logits c;
  typename Products::Weights weights;
  float fade[laneRows];
  auto behind = [](uint32_t stage) {
    return stage == stages - 1 ? 0 : stage + 1;
  };
  uint32_t stage = 0, next = behind(stage), far = behind(next);
  group.fence();
  products.beginScores(own, shared.tile.k(stage), c);
  if (number)
    arrive();
  if (from + tileKeys < to)
    loadOwn(from + tileKeys, next);
  simt.commit();
  group.template wait<0>();
  group.waited(c[0]);
  hideBehind(c, keys, from, to, stage);
  soften(c, scale, fade);
  products.narrowTo(weights, c);
  if (!number)
    arrive();
  for (uint32_t first = from + tileKeys; first < to; first += tileKeys) {
    group.fence();
    products.beginScores(own, shared.tile.k(next), c);
    products.beginValues(shared.tile.v(stage), weights, o);
    if (number)
      arrive();
    if (first + tileKeys < to)
      loadOwn(first + tileKeys, far);
    simt.commit();
    group.template wait<1>();
    group.waited(c[0]);
    hideBehind(c, keys, first, to, next);
    if (soften(c, scale, fade)) {
      group.template wait<0>();
      group.waited(o[0]);
      weaken(fade);
    }
    // A block of its own: in one with the softmax, ptxas would wait in front of that.
    group.template wait<0>();
    group.waited(o[0]);
    products.narrowTo(weights, c);
    if (!number)
      arrive();
    stage = next, next = far, far = behind(far);
  }
  group.fence();
  products.beginValues(shared.tile.v(stage), weights, o);
  group.template wait<0>();
  group.waited(o[0]);
}

/// Logits to weights; false: what was added before counts as it is.
template <typename E, int D, Sharing sharing>
bool AttentionSweep<E, D, sharing>::soften(Logits &c, float scale,
                                           float (&fade)[laneRows]) {
  constexpr uint32_t chains = 4;
  bool fades = false;
#pragma unroll
  for (uint32_t i = 0; i < laneRows; ++i) {
    auto &of = c[i / 2];
    const uint32_t left = i % 2 * 2;
    // Several chains: one of all would be waited for at each step.
    float tops[chains], sums[chains] = {};
#pragma unroll
    for (int t = 0; t < Products::blocks; ++t)
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j) {
        uint32_t n = uint32_t(t) * 2 + j;
        float x = of[t][left + j];
        tops[n % chains] = n < chains ? x : simt.max(tops[n % chains], x);
      }
    float top = mostOf(simt, 4, treeOf(tops, simt.max));
    top = simt.max(state[i].most, top * scale);
    fade[i] = simt.exp2(state[i].most - top);
    fades |= fade[i] != 1;
    state[i].most = top;
#pragma unroll
    for (int t = 0; t < Products::blocks; ++t)
#pragma unroll
      for (uint32_t j = left; j < left + 2; ++j) {
        of[t][j] = simt.exp2(__builtin_fmaf(of[t][j], scale, -top));
        sums[(uint32_t(t) * 2 + j) % chains] += of[t][j];
      }
    float sum = treeOf(sums, [](float a, float b) { return a + b; });
    state[i].weight = state[i].weight * fade[i] + sum; // of this lane's columns
  }
  return simt.any(fades); // something larger has come, as seldom
}

template <typename E, int D, Sharing sharing>
void AttentionSweep<E, D, sharing>::weaken(const float (&fade)[laneRows]) {
#pragma unroll
  for (uint32_t tile = 0; tile < rowTiles; ++tile)
#pragma unroll
    for (int t = 0; t < D / 8; ++t)
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i)
        o[tile][t][i] *= fade[2 * tile + i / 2];
}

template <typename E, int D, Sharing sharing>
template <typename Output>
void AttentionSweep<E, D, sharing>::finish(const Output &out, uint32_t blockRow,
                                           uint32_t rowsThere, bool isPart,
                                           uint32_t split) {
#pragma unroll
  for (RowState &row : state)
    row.weight = sumOf(simt, 4, row.weight);
  if constexpr (sharesRows)
    storeShared(out, blockRow, rowsThere, isPart, split);
  else
    storeOwn(out, blockRow, rowsThere, isPart, split);
}

/// Each lane what it holds.
template <typename E, int D, Sharing sharing>
template <typename Output>
void AttentionSweep<E, D, sharing>::storeOwn(const Output &out,
                                             uint32_t blockRow,
                                             uint32_t rowsThere, bool isPart,
                                             uint32_t split) {
#pragma unroll
  for (uint32_t i = 0; i < laneRows; ++i) {
    uint32_t r = row(i);
    if (r >= rowsThere)
      continue;
    const auto &of = o[i / 2];
    const uint32_t left = i % 2 * 2, first = lane % 4 * 2;
    auto each = [&](auto two, auto one) {
#pragma unroll
      for (uint32_t t = 0; t < D / 8; ++t)
        if (uint32_t at = t * 8 + first; at + 1 < d)
          two(at, of[t][left], of[t][left + 1]);
        else if (at < d)
          one(at, of[t][left]);
    };
    if (isPart) {
      float *part = out.part(blockRow + r, split);
      each([&](uint32_t at, float a, float b) { store(part + at, a), store(part + at + 1, b); },
           [&](uint32_t at, float a) { store(part + at, a); });
      if (lane % 4 == 0) {
        store(part + d, state[i].most);
        store(part + d + 1, state[i].weight);
      }
      continue;
    }
    auto to = out.row(blockRow + r);
    float share = state[i].mean(1);
    each([&](uint32_t at, float a, float b) { to.storeTwo(at, a * share, b * share); },
         [&](uint32_t at, float a) { to.store(at, a * share); });
    if (lane % 4 == 0)
      out.storeLse(blockRow + r, state[i].most + simt.log2(state[i].weight));
  }
}

/// What the warps have of the same rows, added up.
template <typename E, int D, Sharing sharing>
template <typename Output>
void AttentionSweep<E, D, sharing>::storeShared(const Output &out,
                                                uint32_t blockRow,
                                                uint32_t rowsThere, bool isPart,
                                                uint32_t split) {
  // Eight rows begin eight banks apart: stores of two floats do not conflict.
  constexpr uint32_t pitch = D + 8;
  static_assert(sizeof(Tile) >= warps * 16 * pitch * sizeof(float));
  auto *sums = reinterpret_cast<float *>(&shared.tile);
  simt.barrier(); // the tile was used
#pragma unroll
  for (uint32_t i = 0; i < laneRows; ++i)
    if (lane % 4 == 0)
      shared.rows[firstRow() + lane / 4 + i * 8].state = state[i];
#pragma unroll
  for (uint32_t i = 0; i < 2; ++i)
#pragma unroll
    for (uint32_t t = 0; t < D / 8; ++t)
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j)
        sums[(warp * 16 + i * 8 + lane / 4) * pitch + t * 8 + lane % 4 * 2 +
             j] = o[0][t][i * 2 + j];
  simt.barrier();
  for (uint32_t r = warp; r < 16 && r < rowsThere; r += warps) {
    RowState all = shared.rows[r].state;
    for (uint32_t w = 1; w < warps; ++w)
      if (shared.rows[w * 16 + r].state.most > all.most)
        all.most = shared.rows[w * 16 + r].state.most;
    all.weight = 0;
    float share[warps];
#pragma unroll
    for (uint32_t w = 0; w < warps; ++w) {
      const RowState &one = shared.rows[w * 16 + r].state;
      share[w] = simt.exp2(one.most - all.most);
      all.weight += share[w] * one.weight;
    }
    const float *of = sums + r * pitch;
    auto to = out.row(blockRow + r);
    float *part = isPart ? out.part(blockRow + r, split) : nullptr;
#pragma unroll
    for (uint32_t c = 0; c < D / 32; ++c) {
      uint32_t i = lane + c * 32;
      float sum = 0;
#pragma unroll
      for (uint32_t w = 0; w < warps; ++w)
        sum += share[w] * of[w * 16 * pitch + i];
      if (i >= d)
        continue;
      if (isPart)
        store(part + i, sum);
      else
        to.store(i, all.mean(sum));
    }
    if (lane != 0)
      continue;
    if (isPart) {
      store(part + d, all.most);
      store(part + d + 1, all.weight);
    } else {
      out.storeLse(blockRow + r, all.most + simt.log2(all.weight));
    }
  }
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONSWEEP_H
