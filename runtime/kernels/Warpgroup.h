//===- Warpgroup.h - four warps that multiply together --------------------===//
//
// The warpgroup matrix instructions (wgmma) of sm_90a: c += a b, where c has 64 rows and up
// to 128 columns and its fragments lie in the registers of 128 threads, each warp having 16
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

/// `count` rows of panels, the first one at a multiple of 1024 bytes.
template <typename E, uint32_t count> class PanelRows {
  static_assert(sizeof(E) == 2 && count % 8 == 0);

public:
  static constexpr uint32_t width = 64, // of a panel
      rowBytes = width * sizeof(E), panelBytes = count * rowBytes;
  /// `offset` bytes behind what lies in the block's memory.
  PanelRows(void *base, uint32_t offset)
      : first(Simt::placeOf(base) + offset) {}

  E *at(uint32_t row, uint32_t column) const {
    return pointer(first + offset(row, column));
  }
  /// `row`: a multiple of 8.
  PanelRows from(uint32_t row) const {
    return PanelRows(first + row * rowBytes);
  }
  /// Pieces of a column, from one of the first eight rows downwards, by numbers of rows that
  /// have no bit of the first one's.
  struct Walk {
    uint32_t row, column;
    PanelRows of;
    auto down(uint32_t rows) const {
#ifdef __NVPTX__
      return (of.first + offset(row, column) ^ rows % 8 * 16) + rows * rowBytes;
#else
      return of.at(row + rows, column);
#endif
    }
  };
  Walk walk(uint32_t row, uint32_t column) const {
    return {row, column, *this};
  }

  using Place = Simt::Place;
#ifdef __NVPTX__
  static E *pointer(Place place) {
    return (E *)(__attribute__((address_space(3))) E *)uintptr_t(place);
  }
#else
  static E *pointer(Place place) { return reinterpret_cast<E *>(place); }
#endif
  Place first;

private:
  explicit PanelRows(Place first) : first(first) {}
  /// A row's pieces of eight elements are where their number and the row's differ.
  static constexpr uint32_t offset(uint32_t row, uint32_t column) {
    uint32_t piece = column / 8 % 8 ^ row % 8;
    return column / width * panelBytes + row * rowBytes + piece * 16 +
           column % 8 * uint32_t(sizeof(E));
  }
};

#ifdef __NVPTX__

/// Of a descriptor the low half, where an operand begins and the distance of its panels. The
/// high half is the same for all: eight rows are 1024 bytes behind each other, and pieces
/// exchanged in 128 bytes.
template <typename E, uint32_t count> class PanelMatrix {
public:
  explicit PanelMatrix(const PanelRows<E, count> &rows)
      : low(rows.first >> 4 | rows.panelBytes >> 4 << 16) {}
  /// What lies `number` times so many bytes behind it.
  template <uint32_t bytes> PanelMatrix behind(uint32_t number) const {
    static_assert(bytes % 16 == 0);
    return PanelMatrix(low + number * (bytes / 16));
  }
  uint32_t low;

private:
  explicit PanelMatrix(uint32_t low) : low(low) {}
};

// Of asm statements: the registers of blocks of columns, and their names.
#define KVC_BLOCK(c, t)                                                        \
  "+f"(c[t][0]), "+f"(c[t][1]), "+f"(c[t][2]), "+f"(c[t][3])
#define KVC_FOUR_BLOCKS(c, t)                                                  \
  KVC_BLOCK(c, t), KVC_BLOCK(c, t + 1), KVC_BLOCK(c, t + 2), KVC_BLOCK(c, t + 3)
#define KVC_BLOCKS_32(c) KVC_FOUR_BLOCKS(c, 0)
#define KVC_BLOCKS_64(c) KVC_BLOCKS_32(c), KVC_FOUR_BLOCKS(c, 4)
#define KVC_BLOCKS_96(c) KVC_BLOCKS_64(c), KVC_FOUR_BLOCKS(c, 8)
#define KVC_BLOCKS_128(c) KVC_BLOCKS_96(c), KVC_FOUR_BLOCKS(c, 12)
#define KVC_NAMES_32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define KVC_NAMES_64                                                           \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,"             \
  "%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define KVC_NAMES_96                                                           \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,"             \
  "%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,"           \
  "%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define KVC_NAMES_128                                                          \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,"             \
  "%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,"           \
  "%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,"           \
  "%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
// Descriptors are made here, of what all lanes have the same: only so ptxas keeps them out of
// the lanes' registers.
#define KVC_PRODUCT(N, TYPE, A, DESCRIPTORS, SCALE, LAYOUT)                    \
  "{\n .reg .pred p;\n .reg .b32 l, h;\n .reg .b64 da, db;\n"                  \
  " mov.b32 h, 0x40000040;\n" DESCRIPTORS " setp.ne.b32 p, " SCALE ", 0;\n"    \
  " wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE " {" KVC_NAMES_##N   \
      "}, " A ", db, p, 1, 1, " LAYOUT ";\n}"
#define KVC_DESCRIPTOR(NAME, LOW, OFFSET)                                      \
  " add.s32 l, " LOW ", " OFFSET ";\n mov.b64 " NAME ", {l, h};\n"
// Operands follow N / 2 registers.
#define KVC_BOTH_IN_MEMORY(N, TYPE, A, AT, B, BT, SCALE)                       \
  asm volatile(KVC_PRODUCT(N, TYPE, "da",                                      \
                           KVC_DESCRIPTOR("da", A, AT)                         \
                               KVC_DESCRIPTOR("db", B, BT),                    \
                           SCALE, "0, 0")                                      \
               : KVC_BLOCKS_##N(c)                                             \
               : "r"(a), "n"(aAt), "r"(b), "n"(bAt), "n"(step > 0))
#define KVC_A_IN_REGISTERS(N, TYPE, A, B, BT)                                  \
  asm volatile(KVC_PRODUCT(N, TYPE, A, KVC_DESCRIPTOR("db", B, BT), "1", "1")  \
               : KVC_BLOCKS_##N(c)                                             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "n"(bAt))

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
  void multiply(const PanelMatrix<E, aRows> &a, const PanelMatrix<E, bRows> &b,
                float (&c)[blocks][4]) const {
    multiplyFrom<0, width / 16, E, aRows * 128, bRows * 128>(a.low, b.low, c);
  }
  /// c += a b, of `rows` rows of b and its columns from `column`, a multiple of 64. Of a a
  /// lane has 4 registers for every 16 rows of b.
  template <int rows, uint32_t column, typename E, uint32_t bRows, int blocks>
  void add(const uint32_t *a, const PanelMatrix<E, bRows> &b,
           float (&c)[blocks][4]) const {
    addFrom<0, rows / 16, E, column / 64 * bRows * 128>(a, b.low, c);
  }

private:
  /// Of a step of 16 columns, in 16 bytes.
  static constexpr int columnsAt(int step, uint32_t panelBytes) {
    return int(uint32_t(step) / 4 * panelBytes + uint32_t(step) % 4 * 32) / 16;
  }

  template <int step, int steps, typename E, uint32_t aPanel, uint32_t bPanel,
            int blocks>
  static void multiplyFrom(uint32_t a, uint32_t b, float (&c)[blocks][4]) {
    static_assert(blocks == 4 || blocks == 12 || blocks == 16);
    constexpr int aAt = columnsAt(step, aPanel), bAt = columnsAt(step, bPanel);
    constexpr bool bf16 = isSame<E, BF16>;
    if constexpr (blocks == 4 && bf16)
      KVC_BOTH_IN_MEMORY(32, "bf16.bf16", "%16", "%17", "%18", "%19", "%20");
    else if constexpr (blocks == 4)
      KVC_BOTH_IN_MEMORY(32, "f16.f16", "%16", "%17", "%18", "%19", "%20");
    else if constexpr (blocks == 12 && bf16)
      KVC_BOTH_IN_MEMORY(96, "bf16.bf16", "%48", "%49", "%50", "%51", "%52");
    else if constexpr (blocks == 12)
      KVC_BOTH_IN_MEMORY(96, "f16.f16", "%48", "%49", "%50", "%51", "%52");
    else if constexpr (bf16)
      KVC_BOTH_IN_MEMORY(128, "bf16.bf16", "%64", "%65", "%66", "%67", "%68");
    else
      KVC_BOTH_IN_MEMORY(128, "f16.f16", "%64", "%65", "%66", "%67", "%68");
    if constexpr (step + 1 < steps)
      multiplyFrom<step + 1, steps, E, aPanel, bPanel>(a, b, c);
  }

  template <int step, int steps, typename E, uint32_t bytes, int blocks>
  static void addFrom(const uint32_t *a, uint32_t b, float (&c)[blocks][4]) {
    static_assert(blocks == 8 || blocks == 16);
    constexpr int bAt = int(bytes + uint32_t(step) * 2048) / 16;
    constexpr bool bf16 = isSame<E, BF16>;
    if constexpr (blocks == 8 && bf16)
      KVC_A_IN_REGISTERS(64, "bf16.bf16", "{%32,%33,%34,%35}", "%36", "%37");
    else if constexpr (blocks == 8)
      KVC_A_IN_REGISTERS(64, "f16.f16", "{%32,%33,%34,%35}", "%36", "%37");
    else if constexpr (bf16)
      KVC_A_IN_REGISTERS(128, "bf16.bf16", "{%64,%65,%66,%67}", "%68", "%69");
    else
      KVC_A_IN_REGISTERS(128, "f16.f16", "{%64,%65,%66,%67}", "%68", "%69");
    if constexpr (step + 1 < steps)
      addFrom<step + 1, steps, E, bytes>(a + 4, b, c);
  }
};

#undef KVC_A_IN_REGISTERS
#undef KVC_BOTH_IN_MEMORY
#undef KVC_DESCRIPTOR
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

template <typename E, uint32_t count>
class PanelMatrix : public PanelRows<E, count> {
public:
  explicit PanelMatrix(const PanelRows<E, count> &rows)
      : PanelRows<E, count>(rows) {}
  template <uint32_t bytes> PanelMatrix behind(uint32_t number) const {
    return PanelMatrix(PanelRows<E, count>(this->first, number * bytes));
  }
};

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
  void multiply(const PanelMatrix<E, aRows> &a, const PanelMatrix<E, bRows> &b,
                float (&c)[blocks][4]) const {
    uint32_t row = simt.thread() / warpSize % 4 * 16 + lane() / 4;
    for (auto &of : c)
      of[0] = of[1] = of[2] = of[3] = 0;
    for (uint32_t first = 0; first < uint32_t(width); first += 16) {
      uint32_t left[4], right[2];
      for (uint32_t i = 0; i < 4; ++i)
        left[i] =
            two(a.at(row + i % 2 * 8, first + i / 2 * 8 + lane() % 4 * 2));
      for (uint32_t t = 0; t < uint32_t(blocks); ++t) {
        for (uint32_t i = 0; i < 2; ++i)
          right[i] =
              two(b.at(t * 8 + lane() / 4, first + i * 8 + lane() % 4 * 2));
        simt.mma<E, 1>(left, right, c[t]);
      }
    }
  }
  template <int rows, uint32_t column, typename E, uint32_t bRows, int blocks>
  void add(const uint32_t *a, const PanelMatrix<E, bRows> &b,
           float (&c)[blocks][4]) const {
    for (uint32_t row = 0; row < uint32_t(rows); row += 16)
      for (uint32_t t = 0; t < uint32_t(blocks); ++t) {
        uint32_t right[2], at = column + t * 8 + lane() / 4;
        for (uint32_t i = 0; i < 2; ++i) {
          uint32_t k = row + i * 8 + lane() % 4 * 2;
          right[i] = pack(*b.at(k, at), *b.at(k + 1, at));
        }
        simt.mma<E, 1>(a + row / 4, right, c[t]);
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
