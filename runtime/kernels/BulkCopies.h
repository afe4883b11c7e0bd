//===- BulkCopies.h - rows that the bulk copy engine brings ---------------===//
//
// The bulk copy engine of sm_90 (the tensor memory accelerator, TMA) brings boxes of a tensor
// to the block's memory. One thread asks for them; whoever reads them waits for their arrival
// at a barrier in that memory (PTX ISA, "mbarrier" and "cp.async.bulk.tensor"). They come as
// wgmma reads them: no fence stands between. The host has no such engine, and nothing asks.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_BULKCOPIES_H
#define KVC_RUNTIME_KERNELS_BULKCOPIES_H

#include "runtime/kernels/Simt.h"
#include "runtime/kernels/TensorMap.h"

#include <stddef.h>

namespace kvc::gpu {

/// Of a tensor: column, row, and what two more dimensions number.
struct BoxPlace {
  int32_t column, row, head, outer;
};

/// Where copies arrive, in turns: each is over when all bytes that were expected have come.
class Arrivals {
public:
  static constexpr uint32_t bytes = 8; // of one
  /// `offset` bytes behind what lies in the block's memory.
  Arrivals(void *base, uint32_t offset) : first(Simt::placeOf(base) + offset) {}
  Arrivals at(uint32_t number) const {
    return Arrivals(first + number * bytes);
  }

#ifdef __NVPTX__
  /// Before the first turn, by the thread that will ask; Warpgroup::publish() and a barrier
  /// follow.
  void prepare() const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(first)
                 : "memory");
  }
  /// Begins a turn in which so many bytes come. By the thread that asks for them.
  void expect(uint32_t bytes) const {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(first),
        "r"(bytes)
        : "memory");
  }
  /// A box of the map's extent, to a multiple of 1024 bytes in the block's memory.
  void ask(Simt::Place to, const TensorMap *map, BoxPlace from) const {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile"
        ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::
            "r"(to),
        "l"(map), "r"(from.column), "r"(from.row), "r"(from.head),
        "r"(from.outer), "r"(first)
        : "memory");
  }
  /// Until a turn is over: of even ones `parity` is 0, of odd ones 1.
  void wait(uint32_t parity) const {
    asm volatile("{\n .reg .pred p;\nKVC_WAIT_%=:\n"
                 " mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 " @!p bra KVC_WAIT_%=;\n}" ::"r"(first),
                 "r"(parity)
                 : "memory");
  }
#else
  void prepare() const {}
  void expect(uint32_t) const {}
  void ask(Simt::Place, const TensorMap *, BoxPlace) const {}
  void wait(uint32_t) const {}
#endif

private:
  explicit Arrivals(Simt::Place first) : first(first) {}
  Simt::Place first;
};

/// Of the boxes that a kernel's parameters have at `offset`, keys' or values', where it lies.
template <bool values>
const TensorMap *mapOf(const Simt &simt, uint32_t offset) {
  return simt.parameter<TensorMap>(
      offset + (values ? offsetof(BoxArgs, v) : offsetof(BoxArgs, k)));
}

/// A box of each panel of `into`.
template <uint32_t panels, typename Rows>
void askForPanels(Rows into, const TensorMap *map, BoxPlace from,
                  Arrivals arrival) {
#pragma unroll
  for (uint32_t panel = 0; panel < panels; ++panel) {
    from.column = int32_t(panel * Rows::width);
    arrival.ask(into.first + panel * Rows::panelBytes, map, from);
  }
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_BULKCOPIES_H
