//===- Blocks.h - the blocks of a grid, over all cores --------------------===//

#ifndef KVC_EMULATOR_BLOCKS_H
#define KVC_EMULATOR_BLOCKS_H

#include <array>
#include <cstdint>
#include <functional>

namespace kvc::rt {

/// Runs the block at (x, y, z).
using RunBlock = std::function<void(uint32_t x, uint32_t y, uint32_t z)>;

/// Runs all blocks on `threads` operating-system threads (0: one per core) and
/// returns when done. `makeRunner` is called once in each thread. The first
/// Failure ends the grid and is thrown.
void runBlocks(std::array<uint32_t, 3> grid, unsigned threads,
               const std::function<RunBlock()> &makeRunner);

} // namespace kvc::rt

#endif // KVC_EMULATOR_BLOCKS_H
