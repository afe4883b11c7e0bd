//===- AttentionTogether.h - two warpgroups, half a tile apart ------------===//
//
// One multiplies while the other one softens its logits. Between two barriers the first one
// begins products of tile i, then makes weights of tile i + 1; the other one makes weights of
// tile i, then begins its products. Keys of tile i + 2 come while those of i + 1 are
// multiplied, and those of i are still read by the warpgroup behind: three tiles. Values come
// when the warpgroup that loads them has passed the barrier behind its products: those of
// tile i + 2 while i and i + 1 are in use.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_ATTENTIONTOGETHER_H
#define KVC_RUNTIME_KERNELS_ATTENTIONTOGETHER_H

#include "runtime/kernels/AttentionSweep.h"

namespace kvc::gpu {

template <typename E, int D, Sharing sharing>
template <uint32_t number, typename Keys>
void AttentionSweep<E, D, sharing>::sweepTogether(const Keys &keys,
                                                  uint32_t from, uint32_t to,
                                                  bool rowsAligned,
                                                  float scale) {
  const auto &group = products.group;
  auto queries = shared.tile.q();
  // The first warpgroup loads keys, the other one values.
  const uint32_t most =
      to < keys.whole ? to : keys.whole; // that may be in a run
  const char *at = nullptr;
  uint32_t stride = 0, until = 0; // of the run that the last tile was, else 0
  // Tiles in front of it come by the bulk copy engine, which one thread asks.
  const uint32_t inBoxes = keys.inBoxes < to ? keys.inBoxes : to;
  const bool asks = simt.thread() % 128 == 0;
  const Arrivals keysCome = shared.tile.keysCome(),
                 valuesCome = shared.tile.valuesCome(),
                 ownCome = number ? valuesCome : keysCome;
  if (asks)
    for (uint32_t i = 0; i < stages; ++i)
      ownCome.at(i).prepare();
  group.publish();
  bool copies = true; // what is on its way comes by this warp's own copies
  auto placeOf = [&](uint32_t stage) -> Rows {
    return number ? shared.tile.v(stage) : shared.tile.k(stage);
  };
  auto comesInBoxes = [&](uint32_t first) {
    return first + tileKeys <= inBoxes;
  };
  auto askForOwn = [&](uint32_t first, uint32_t stage) {
    ownCome.at(stage).expect(tileKeys * D * sizeof(E));
    keys.template ask<number != 0, D / Rows::width>(simt, placeOf(stage), first,
                                                    ownCome.at(stage));
  };
  auto copyOwn = [&](uint32_t first, uint32_t stage) {
    Rows into = placeOf(stage).from(firstKey());
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
  auto loadOwn = [&](uint32_t first, uint32_t stage) {
    copies = !comesInBoxes(first) && first < to;
    if (asks && comesInBoxes(first))
      askForOwn(first, stage);
    if (copies)
      copyOwn(first, stage);
  };
  auto arrive =
      [&] { // what was asked for is there, and what is behind was used
        if (copies) {
          simt.commit();
          simt.wait<0>();
          group.publish();
        }
        simt.barrier();
      };
  load<16>(queries.from(firstRow()), rowsAligned, /*full=*/true,
           [&](uint32_t i) { return shared.rows[firstRow() + i].query.q; });
  loadOwn(from, 0);
  copies = true; // the queries
  if (scale < 0) {
    simt.commit();
    simt.wait<0>();
    simt.syncWarp();
    for (uint32_t i = 2 * lane; i < 16 * D; i += 2 * warpSize) {
      E *two = queries.at(firstRow() + i / D, i % D);
      *reinterpret_cast<uint32_t *>(two) ^= 0x80008000;
    }
  }
  scale = (scale < 0 ? -scale : scale) * log2e;
  arrive();
  const PanelMatrix ownRows(queries.from(number * 64));
  const PanelMatrix keyTiles(shared.tile.k(0)), valueTiles(shared.tile.v(0));
  auto tileOf = [](const auto &tiles, uint32_t stage) {
    return tiles.template behind<Tile::tileBytes>(stage);
  };
  Logits c;
  typename Products::Weights weights;
  float fade[laneRows];
  auto behind = [](uint32_t stage) {
    return stage == stages - 1 ? 0 : stage + 1;
  };
  uint32_t stage = 0, next = behind(stage), far = behind(next);
  uint32_t turn = 0, nextTurn = 0; // of a stage's tiles, whose parity it is
  auto waitFor = [&](Arrivals arrival, uint32_t first, uint32_t turn) {
    if (comesInBoxes(first))
      arrival.wait(turn);
  };
  waitFor(keysCome.at(stage), from, turn);
  group.fence();
  products.beginScores(ownRows, tileOf(keyTiles, stage), c);
  if (number)
    arrive();
  loadOwn(from + tileKeys, next);
  group.template wait<0>();
  group.waited(c[0]);
  hideBehind(c, keys, from, to, stage);
  soften(c, scale, fade);
  products.narrowTo(weights, c);
  if (!number)
    arrive();
  uint32_t first = from + tileKeys;
  for (; first < to; first += tileKeys) {
    waitFor(keysCome.at(next), first, nextTurn);
    group.fence();
    products.beginScores(ownRows, tileOf(keyTiles, next), c);
    waitFor(valuesCome.at(stage), first - tileKeys, turn);
    group.fence();
    products.beginValues(tileOf(valueTiles, stage), weights, o);
    if (number)
      arrive();
    loadOwn(first + tileKeys, far);
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
    turn = nextTurn, nextTurn ^= next == 0;
  }
  waitFor(valuesCome.at(stage), first - tileKeys, turn);
  group.fence();
  products.beginValues(tileOf(valueTiles, stage), weights, o);
  group.template wait<0>();
  group.waited(o[0]);
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONTOGETHER_H
