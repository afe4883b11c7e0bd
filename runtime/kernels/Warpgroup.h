//===- Warpgroup.h - four warps that multiply together --------------------===//
//
// The warpgroup matrix instructions (wgmma) of sm_90a: c += a b, where c has 64 rows and 64
// or 128 columns and its fragments lie in the registers of 128 threads, each warp having 16
// rows as m16n8k16 leaves them (AttentionTile.h). b is read from the block's memory, a from
// there or from registers. A product is begun, and is over once it was waited for; until
// then nobody touches its registers or overwrites what it reads.
//
// Operands in the block's memory are PanelRows: panels of 64 columns, whose rows of 128 bytes
// follow each other, their pieces of 16 bytes exchanged such that eight rows fill all banks
// (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", 128-byte swizzle).
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_WARPGROUP_H
#define KVC_RUNTIME_KERNELS_WARPGROUP_H

#include "runtime/kernels/Simt.h"

namespace kvc::gpu {

constexpr uint32_t warpgroupSize = 128;

/// `count` rows of panels, the first one at a multiple of 1024 bytes.
template <typename E, uint32_t count> struct PanelRows {
  static_assert(sizeof(E) == 2 && count % 8 == 0);
  static constexpr uint32_t width = 64,
                            panel = count * width; // in elements
  E *rows;

  /// A row's pieces of eight elements are where their number and the row's differ.
  E *at(uint32_t row, uint32_t column) const {
    uint32_t piece = column / 8 % 8 ^ row % 8;
    return rows + column / width * panel + row * width + piece * 8 + column % 8;
  }
  /// Pieces of a column, from one of the first eight rows downwards, by numbers of rows that
  /// have no bit of the first one's.
#ifdef __NVPTX__
  struct Walk {
    uint32_t at; // the pieces of a row fill 128 bytes
    uint32_t down(uint32_t rows) const {
      return (at ^ rows % 8 * 16) + rows * width * sizeof(E);
    }
  };
  Walk walk(uint32_t row, uint32_t column) const {
    return {Simt::inBlock(at(row, column))};
  }
#else
  struct Walk {
    PanelRows of;
    uint32_t row, column;
    E *down(uint32_t rows) const { return of.at(row + rows, column); }
  };
  Walk walk(uint32_t row, uint32_t column) const {
    return {*this, row, column};
  }
#endif
  /// `row`: a multiple of 8.
  PanelRows from(uint32_t row) const { return {rows + row * width}; }
};

#ifdef __NVPTX__

/// Where an operand's first element lies, and the distance of its panels and of its groups
/// of eight rows.
class PanelOperand {
public:
  template <typename E, uint32_t count>
  explicit PanelOperand(const PanelRows<E, count> &of)
      : PanelOperand(Simt::inBlock(of.rows), of.panel * sizeof(E)) {}
  uint64_t advanced(uint32_t bytes) const { return bits + (bytes >> 4); }

private:
  PanelOperand(uint32_t address, uint32_t panelBytes)
      : bits(uint64_t(address >> 4 & 0x3fff) |
             uint64_t(panelBytes >> 4) << 16 | uint64_t(1024 >> 4) << 32 |
             uint64_t(1) << 62) {}
  uint64_t bits;
};

// Of asm statements: the registers of blocks of columns, and their names.
#define KVC_BLOCK(c, t) "+f"(c[t][0]), "+f"(c[t][1]), "+f"(c[t][2]), "+f"(c[t][3])
#define KVC_FOUR_BLOCKS(c, t)                                                  \
  KVC_BLOCK(c, t), KVC_BLOCK(c, t + 1), KVC_BLOCK(c, t + 2), KVC_BLOCK(c, t + 3)
#define KVC_BLOCKS_32(c) KVC_FOUR_BLOCKS(c, 0)
#define KVC_BLOCKS_64(c) KVC_BLOCKS_32(c), KVC_FOUR_BLOCKS(c, 4)
#define KVC_BLOCKS_96(c) KVC_BLOCKS_64(c), KVC_FOUR_BLOCKS(c, 8)
#define KVC_BLOCKS_128(c) KVC_BLOCKS_96(c), KVC_FOUR_BLOCKS(c, 12)
#define KVC_NAMES_32 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define KVC_NAMES_64 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17," \
  "%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define KVC_NAMES_96 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17," \
  "%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33," \
  "%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define KVC_NAMES_128 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17," \
  "%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33," \
  "%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49," \
  "%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define KVC_PRODUCT(N, TYPE, A, B, SCALE, LAYOUT)                              \
  "{\n .reg .pred p;\n setp.ne.b32 p, " SCALE ", 0;\n"                         \
  " wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE " {" KVC_NAMES_##N   \
  "}, " A ", " B ", p, 1, 1, " LAYOUT ";\n}"
// Of operands that follow N / 2 registers.
#define KVC_BOTH_IN_MEMORY(N, TYPE, A, B, SCALE)                               \
  asm volatile(KVC_PRODUCT(N, TYPE, A, B, SCALE, "0, 0")                       \
               : KVC_BLOCKS_##N(c)                                             \
               : "l"(a), "l"(b), "r"(int(adds)))
#define KVC_A_IN_REGISTERS(N, TYPE, A, B)                                      \
  asm volatile(KVC_PRODUCT(N, TYPE, A, B, "1", "1")                            \
               : KVC_BLOCKS_##N(c)                                             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

class Warpgroup {
public:
  explicit Warpgroup(const Simt &) {}

  /// What registers hold is there, for the products that follow.
  void fence() const { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
  /// What this thread has stored or copied into the block's memory is there, for the products
  /// behind the next barrier.
  void publish() const {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  void commit() const {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  }
  template <int pending> void wait() const {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
  }
  /// Behind a wait: nobody has read these in front of it.
  template <int blocks> static void waited(float (&c)[blocks][4]) {
#pragma unroll
    for (int t = 0; t < blocks; ++t)
      asm volatile("" : KVC_BLOCK(c, t)::"memory");
  }

  /// c = a b^T, of the 64 rows of a and the 8 * blocks rows of b.
  template <int width, typename E, uint32_t aRows, uint32_t bRows, int blocks>
  void multiply(const PanelRows<E, aRows> &aOf, const PanelRows<E, bRows> &bOf,
                float (&c)[blocks][4]) const {
    static_assert(blocks == 4 || blocks == 12 || blocks == 16);
    PanelOperand aOperand(aOf), bOperand(bOf);
#pragma unroll
    for (int step = 0; step < width / 16; ++step) {
      uint64_t a = aOperand.advanced(offset(step, aOf.panel)),
               b = bOperand.advanced(offset(step, bOf.panel));
      bool adds = step > 0;
      constexpr bool bf16 = isSame<E, BF16>;
      if constexpr (blocks == 4 && bf16)
        KVC_BOTH_IN_MEMORY(32, "bf16.bf16", "%16", "%17", "%18");
      else if constexpr (blocks == 4)
        KVC_BOTH_IN_MEMORY(32, "f16.f16", "%16", "%17", "%18");
      else if constexpr (blocks == 12 && bf16)
        KVC_BOTH_IN_MEMORY(96, "bf16.bf16", "%48", "%49", "%50");
      else if constexpr (blocks == 12)
        KVC_BOTH_IN_MEMORY(96, "f16.f16", "%48", "%49", "%50");
      else if constexpr (bf16)
        KVC_BOTH_IN_MEMORY(128, "bf16.bf16", "%64", "%65", "%66");
      else
        KVC_BOTH_IN_MEMORY(128, "f16.f16", "%64", "%65", "%66");
    }
  }
  /// c += a b, of the rows of b from `row`, a multiple of 16, and its columns from `column`, a
  /// multiple of 64.
  template <typename E, uint32_t bRows, int blocks>
  void add(const uint32_t *a, const PanelRows<E, bRows> &bOf, uint32_t row,
           uint32_t column, float (&c)[blocks][4]) const {
    static_assert(blocks == 8 || blocks == 16);
    uint64_t b = PanelOperand(bOf).advanced(
        (row * bOf.width + column / bOf.width * bOf.panel) * sizeof(E));
    constexpr bool bf16 = isSame<E, BF16>;
    if constexpr (blocks == 8 && bf16)
      KVC_A_IN_REGISTERS(64, "bf16.bf16", "{%32,%33,%34,%35}", "%36");
    else if constexpr (blocks == 8)
      KVC_A_IN_REGISTERS(64, "f16.f16", "{%32,%33,%34,%35}", "%36");
    else if constexpr (bf16)
      KVC_A_IN_REGISTERS(128, "bf16.bf16", "{%64,%65,%66,%67}", "%68");
    else
      KVC_A_IN_REGISTERS(128, "f16.f16", "{%64,%65,%66,%67}", "%68");
  }

private:
  /// Bytes in front of 16 columns of the first row.
  static constexpr uint32_t offset(int step, uint32_t panel) {
    return uint32_t(step) / 4 * panel * 2 + uint32_t(step) % 4 * 32;
  }
};

#undef KVC_A_IN_REGISTERS
#undef KVC_BOTH_IN_MEMORY
#undef KVC_PRODUCT
#undef KVC_NAMES_32
#undef KVC_NAMES_64
#undef KVC_NAMES_96
#undef KVC_NAMES_128
#undef KVC_BLOCKS_32
#undef KVC_BLOCKS_64
#undef KVC_BLOCKS_96
#undef KVC_BLOCKS_128
#undef KVC_FOUR_BLOCKS
#undef KVC_BLOCK

#else

/// Each warp multiplies its own rows at once.
class Warpgroup {
public:
  explicit Warpgroup(const Simt &simt) : simt(simt) {}
  void fence() const {}
  void publish() const {}
  void commit() const {}
  template <int pending> void wait() const {}
  template <int blocks> static void waited(float (&)[blocks][4]) {}

  template <int width, typename E, uint32_t aRows, uint32_t bRows, int blocks>
  void multiply(const PanelRows<E, aRows> &a, const PanelRows<E, bRows> &b,
                float (&c)[blocks][4]) const {
    uint32_t row = simt.thread() / warpSize % 4 * 16 + lane() / 4;
    for (auto &of : c)
      of[0] = of[1] = of[2] = of[3] = 0;
    for (uint32_t first = 0; first < uint32_t(width); first += 16) {
      uint32_t left[4], right[2];
      for (uint32_t i = 0; i < 4; ++i)
        left[i] = two(a.at(row + i % 2 * 8, first + i / 2 * 8 + lane() % 4 * 2));
      for (uint32_t t = 0; t < uint32_t(blocks); ++t) {
        for (uint32_t i = 0; i < 2; ++i)
          right[i] = two(b.at(t * 8 + lane() / 4, first + i * 8 + lane() % 4 * 2));
        simt.mma<E, 1>(left, right, c[t]);
      }
    }
  }
  template <typename E, uint32_t bRows, int blocks>
  void add(const uint32_t *a, const PanelRows<E, bRows> &b, uint32_t row,
           uint32_t column, float (&c)[blocks][4]) const {
    for (uint32_t t = 0; t < uint32_t(blocks); ++t) {
      uint32_t right[2], at = column + t * 8 + lane() / 4;
      for (uint32_t i = 0; i < 2; ++i) {
        uint32_t k = row + i * 8 + lane() % 4 * 2;
        right[i] = pack(*b.at(k, at), *b.at(k + 1, at));
      }
      simt.mma<E, 1>(a, right, c[t]);
    }
  }

private:
  const Simt &simt;
  uint32_t lane() const { return simt.thread() % warpSize; }
  template <typename E> static uint32_t two(const E *at) {
    return pack(at[0], at[1]);
  }
};

#endif

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_WARPGROUP_H
