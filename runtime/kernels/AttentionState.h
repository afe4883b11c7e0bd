//===- AttentionState.h - what a query row gathers, and who gathers it ----===//
//
// Where the rows of a KV head go, as sweeps and sums of their parts ask for it:
//
//   Row row(uint32_t row) const;  // void Row::store(uint32_t i, float value) const
//                                 // void Row::storeTwo(uint32_t i, float, float) const
//   void storeLse(uint32_t row, float lse) const;        // to base 2
//   float *part(uint32_t row, uint32_t split) const;     // d sums, and a RowState
//
// Splits of a row follow each other, d + 2 floats each.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_ATTENTIONSTATE_H
#define KVC_RUNTIME_KERNELS_ATTENTIONSTATE_H

#include <stdint.h>

namespace kvc::gpu {

/// Below every logit; finite, so that differences are no NaN.
constexpr float lowest = -3e38f;

/// Beside the sum of values, each times 2^(logit - most): the largest logit, times
/// log2(e), and the sum of those weights, 0 where the row saw no key.
struct RowState {
  float most, weight;

  float mean(float sum) const { return weight == 0 ? 0 : sum / weight; }
};

/// The width of kernels for a head dimension of up to 256: 32, 64, 128 or 256.
constexpr uint32_t attentionWidth(uint32_t headDim) {
  uint32_t width = 32;
  while (width < headDim)
    width *= 2;
  return width;
}

/// What the warps of a block share.
enum class Sharing : uint32_t {
  Rows, // 16 query rows; each warp has keys of its own
  Keys, // keys; each warp has 16 query rows of its own
  Keys32, // keys, which each warp reads once for 32 query rows of its own; no members
  Keys64 // keys, which four warps multiply together by 64 query rows (sm_90a); no
         // members
};
constexpr Sharing allSharings[] = {Sharing::Rows, Sharing::Keys,
                                   Sharing::Keys32, Sharing::Keys64};
/// Behind the names of kernels.
constexpr const char *attentionKernelEnd(Sharing sharing) {
  constexpr const char *ends[] = {"_keys", "_rows", "_rows32", "_rows64"};
  return ends[uint32_t(sharing)];
}

/// Warps of a block that sweeps: their tiles of 16 keys and values each fit into
/// 48 KiB. Where many rows fill the registers with one block a multiprocessor, it has
/// eight warps, which bring each key once for all of them.
constexpr uint32_t attentionWarps(uint32_t elementBytes, uint32_t width,
                                  Sharing sharing) {
  uint32_t rowBytes = elementBytes * width;
  if (sharing == Sharing::Keys64 ||
      (sharing == Sharing::Keys32 && rowBytes == 256))
    return 8;
  return rowBytes <= 256 ? 4 : rowBytes <= 512 ? 2 : 1;
}
constexpr uint32_t attentionThreads(uint32_t elementBytes, uint32_t width,
                                    Sharing sharing) {
  return attentionWarps(elementBytes, width, sharing) * 32;
}

/// Keys of a tile that four warps multiply together: three of keys and three of values
/// fit into a multiprocessor.
constexpr uint32_t warpgroupKeys(uint32_t width) {
  return width <= 64 ? 128 : width <= 128 ? 96 : 32;
}

/// Rows of a box of a page's rows (BoxArgs), and of others.
constexpr uint32_t pageBoxRows = 16;
constexpr uint32_t boxRows(uint32_t width, bool paged) {
  return paged ? pageBoxRows : warpgroupKeys(width);
}

/// Bytes of a block's memory that its launch must give, where the kernel cannot have so
/// much of its own.
constexpr uint32_t attentionLaunchBytes(uint32_t elementBytes, uint32_t width,
                                        Sharing sharing) {
  if (sharing == Sharing::Keys64)
    return (128 + 6 * warpgroupKeys(width)) * elementBytes * width +
           192 * warpgroupKeys(width) + (4 << 10);
  return attentionWarps(elementBytes, width, sharing) == 8 ? 84 << 10 : 0;
}

/// Tiles of 16 query rows that a warp has.
constexpr uint32_t attentionRowTiles(Sharing sharing) {
  return sharing == Sharing::Keys32 ? 2 : 1;
}

/// Query rows of a block.
constexpr uint32_t attentionRows(uint32_t elementBytes, uint32_t width,
                                 Sharing sharing) {
  return 16 * attentionRowTiles(sharing) *
         (sharing == Sharing::Rows
              ? 1
              : attentionWarps(elementBytes, width, sharing));
}

/// True where there are kernels of this kind. Of 32 rows a warp, registers have room for
/// two tiles; what four warps multiply together, on a GPU that does so (`together`), are
/// panels of 64 columns.
constexpr bool hasSharing(uint32_t elementBytes, uint32_t width,
                          Sharing sharing, bool together) {
  if (sharing == Sharing::Keys32)
    return elementBytes == 2 && width <= 128;
  if (sharing == Sharing::Keys64)
    return together && elementBytes == 2 && width >= 64;
  return true;
}

/// For so many query rows of a KV head. `merged`: rows have members.
constexpr Sharing attentionSharing(uint32_t elementBytes, uint32_t width,
                                   uint64_t headRows, bool merged,
                                   bool together) {
  auto fills = [&](Sharing sharing) {
    return headRows > attentionRows(elementBytes, width, sharing) &&
           hasSharing(elementBytes, width, sharing, together);
  };
  if (!fills(Sharing::Rows))
    return Sharing::Rows;
  if (!merged && fills(Sharing::Keys64))
    return Sharing::Keys64;
  return !merged && fills(Sharing::Keys32) ? Sharing::Keys32 : Sharing::Keys;
}

/// Of a block that adds up the parts of a row.
constexpr uint32_t partsWarps = 8, partsThreads = partsWarps * 32;

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONSTATE_H
