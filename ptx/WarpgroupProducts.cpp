//===- WarpgroupProducts.cpp - wgmma, fence.proxy.async -------------------===//

#include "ptx/WarpgroupProducts.h"

#include "emulator/Mma.h"
#include "ptx/Block.h"
#include "ptx/Lanewise.h"
#include "ptx/Opcodes.h"
#include "ptx/SharedMatrix.h"
#include "runtime/base/Failure.h"

#include <algorithm>
#include <charconv>

using namespace kvc::ptx;
using kvc::rt::fail;

namespace {

/// Operands of wgmma.mma_async: A's descriptor or registers, B's descriptor, scale-d,
/// whether A and B are negated, whether they are MN-major (A in registers is not).
constexpr size_t leftRegisters = 4, withLeftRegisters = 9;

bool hasLeftRegisters(const Instruction &op) {
  return op.operands.size() == withLeftRegisters;
}

/// The registers of A, if it has some.
std::span<const Operand> leftOf(const Instruction &op) {
  return std::span(op.operands).first(hasLeftRegisters(op) ? leftRegisters : 0);
}

/// The operands behind A.
std::span<const Operand> behindLeft(const Instruction &op) {
  return std::span(op.operands).subspan(hasLeftRegisters(op) ? 4 : 1);
}

} // namespace

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

WarpgroupProducts::WarpgroupProducts(const Kernel &kernel)
    : kernel(kernel), uses(kernel.keeps ? kernel.rows() : 0, Use()) {}

void WarpgroupProducts::touch(Row row) {
  Use &use = uses[row];
  if (use.by)
    throw fail(KVC_INTERNAL_ERROR,
               "'{}' must not be used before wgmma.wait_group, the wgmma in "
               "PTX line {} has it",
               kernel.nameOf(row), use.by->line);
  use.touched = fences + 1;
}

void WarpgroupProducts::touch(const Instruction &op) {
  if (op.guarded)
    touch(op.guard.row);
  for (const Operand &operand : op.operands)
    touch(operand.row);
  for (Row row : op.results)
    touch(row);
}

void WarpgroupProducts::take(const WarpgroupProduct &product) {
  auto take = [&](Row row, bool accumulates) {
    uses[row].by = product.op;
    uses[row].accumulates = accumulates;
    marked.push_back(row);
  };
  for (Row row : product.op->results)
    take(row, true);
  for (const Operand &operand : leftOf(*product.op))
    take(operand.row, false);
}

void WarpgroupProducts::mark() {
  for (Row row : marked)
    uses[row].by = nullptr;
  marked.clear();
  for (const auto &group : groups)
    for (const WarpgroupProduct &product : group)
      take(product);
  for (const WarpgroupProduct &product : open)
    take(product);
}

void WarpgroupProducts::begin(const WarpgroupProduct &product) {
  const Instruction &op = *product.op;
  if (!fences)
    throw fail(KVC_INTERNAL_ERROR,
               "wgmma.fence must stand before the first wgmma");
  auto check = [&](Row row, bool free) {
    const Use &use = uses[row];
    if (!free)
      throw fail(KVC_INTERNAL_ERROR,
                 "'{}' must not be used before wgmma.wait_group but by a wgmma "
                 "with the same accumulators, the one in PTX line {} has it",
                 kernel.nameOf(row), use.by->line);
    if (use.touched == fences + 1)
      throw fail(KVC_INTERNAL_ERROR,
                 "wgmma.fence must stand between wgmma and the last use of "
                 "'{}'",
                 kernel.nameOf(row));
  };
  const Instruction *same = nullptr;
  for (Row row : op.results) {
    const Instruction *by = uses[row].by;
    if (by && by != same && uses[row].accumulates && by->results == op.results)
      same = by;
    check(row, by == same || !by);
  }
  for (const Operand &operand : leftOf(op)) {
    const Use &use = uses[operand.row];
    bool own = std::find(op.results.begin(), op.results.end(), operand.row) !=
               op.results.end();
    if (own)
      throw fail(KVC_INTERNAL_ERROR,
                 "'{}' must not be an accumulator and of A in one wgmma",
                 kernel.nameOf(operand.row));
    check(operand.row, !use.by || !use.accumulates);
  }
  open.push_back(product);
  take(product);
  ++begun;
}

void Warpgroups::begin(uint32_t warp, uint64_t index,
                       const WarpgroupProduct &product) {
  if (products.size() <= warp / 4)
    products.resize(warp / 4 + 1);
  auto &begun = products[warp / 4];
  if (index == begun.size()) {
    begun.push_back(product);
    return;
  }
  const WarpgroupProduct &other = begun[index];
  if (product != other)
    throw fail(KVC_INTERNAL_ERROR,
               "the warps of a warpgroup must multiply the same matrices, got "
               "{:#x} and {:#x}{} for {:#x} and {:#x}{} in PTX line {}",
               product.a, product.b, product.adds ? "" : " anew", other.a,
               other.b, other.adds ? "" : " anew", other.op->line);
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

namespace {

constexpr uint32_t rowsOfWarp = 16;

uint64_t uniform(const Warp &warp, const Operand &operand) {
  const Lanes &lanes = warp[operand];
  for (uint64_t value : lanes)
    if (value != lanes[0])
      throw fail(KVC_INTERNAL_ERROR,
                 "an operand of wgmma must be the same in all lanes, got {:#x} "
                 "and {:#x}",
                 lanes[0], value);
  return lanes[0];
}

/// A modifier that stands as a number behind the operands: `one` or `other`.
bool choice(const Warp &warp, const Operand &operand, int32_t one,
            int32_t other) {
  auto value = int32_t(warp[operand][0]);
  if (value != one && value != other)
    throw fail(KVC_INTERNAL_ERROR, "a modifier must be {} or {}, got {}", one,
               other, value);
  return value == other;
}

/// The operands of a product as numbers.
struct Values {
  std::vector<uint16_t> left, right; // [rows][16], [columns][16]

  /// Those in memory as of now, those in registers as well.
  Values(Warp &warp, const WarpgroupProduct &product)
      : left(rowsOfWarp * SharedMatrix::depth),
        right(2 * product.op->results.size() * SharedMatrix::depth) {
    const Instruction &op = *product.op;
    std::span<const Operand> behind = behindLeft(op);
    auto majorOf = [&](size_t operand) {
      return choice(warp, behind[operand], 0, 1) ? Major::MN : Major::K;
    };
    const Access access = accessOf(warp, 0);
    if (hasLeftRegisters(op)) {
      fromRegisters(warp, op);
    } else {
      SharedMatrix(product.a, majorOf(4), 4 * rowsOfWarp)
          .read(warp.block.shared, warp.index % 4 * rowsOfWarp, rowsOfWarp,
                left.data(), access);
    }
    auto columns = uint32_t(2 * op.results.size());
    SharedMatrix(product.b, majorOf(behind.size() - 1), columns)
        .read(warp.block.shared, 0, columns, right.data(), access);
    if (choice(warp, behind[2], 1, -1))
      negate(left);
    if (choice(warp, behind[3], 1, -1))
      negate(right);
  }

private:
  /// The fragments of mma.m16n8k16.
  void fromRegisters(Warp &warp, const Instruction &op) {
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t i = 0; i < leftRegisters; ++i) {
        auto bits = uint32_t(warp[op.operands[i]][lane]);
        uint32_t row = lane / 4 + i % 2 * 8, k = lane % 4 * 2 + i / 2 * 8;
        uint16_t *to = &left[row * SharedMatrix::depth + k];
        to[0] = uint16_t(bits), to[1] = uint16_t(bits >> 16);
      }
  }
  static void negate(std::vector<uint16_t> &values) {
    for (uint16_t &value : values)
      value ^= 0x8000;
  }
};

/// A warp's rows of D, 8 columns at a time, as mma.sync multiplies them.
template <bool bf16>
void multiplyRows(Warp &warp, const WarpgroupProduct &product) {
  Values values(warp, product);
  uint32_t a[32][4], b[32][2];
  float c[32][4];
  const uint32_t *left[32], *right[32];
  float *sums[32];
  auto pair = [](const std::vector<uint16_t> &from, uint32_t row, uint32_t k) {
    const uint16_t *at = &from[row * SharedMatrix::depth + k];
    return at[0] | uint32_t(at[1]) << 16;
  };
  for (uint32_t lane = 0; lane < 32; ++lane) {
    left[lane] = a[lane], right[lane] = b[lane], sums[lane] = c[lane];
    for (uint32_t i = 0; i < 4; ++i)
      a[lane][i] =
          pair(values.left, lane / 4 + i % 2 * 8, lane % 4 * 2 + i / 2 * 8);
  }
  const std::vector<Row> &results = product.op->results;
  for (uint32_t first = 0; first < results.size(); first += 4) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t i = 0; i < 2; ++i)
        b[lane][i] =
            pair(values.right, 2 * first + lane / 4, lane % 4 * 2 + i * 8);
      for (uint32_t i = 0; i < 4; ++i)
        c[lane][i] = product.adds
                         ? valueOf<float>(warp.row(results[first + i])[lane])
                         : 0;
    }
    kvc::rt::warpMma(left, right, sums, 1, bf16);
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t i = 0; i < 4; ++i)
        warp.row(results[first + i])[lane] = bitsOf(c[lane][i]);
  }
}

void checkWarpgroup(const Warp &warp, uint32_t lanes) {
  uint32_t threads = warp.block.shape.block;
  if (lanes != ~0u || warp.index / 4 * 128 + 128 > threads)
    throw fail(KVC_INTERNAL_ERROR,
               "a warpgroup must have 128 threads, got a block of {}", threads);
}

void beginProduct(Warp &warp, const Instruction &op, uint32_t lanes) {
  checkWarpgroup(warp, lanes);
  std::span<const Operand> behind = behindLeft(op);
  WarpgroupProduct product;
  product.op = &op;
  if (!hasLeftRegisters(op))
    product.a = uniform(warp, op.operands[0]);
  product.b = uniform(warp, behind[0]);
  product.adds = (uniform(warp, behind[1]) & 1) != behind[1].negated;
  warp.block.warpgroups.begin(warp.index, warp.products.begun, product);
  warp.products.begin(product);
  // Memory is read from now on; what is in it counts where the product ends.
  Values(warp, product);
}

void fenceRegisters(Warp &warp, const Instruction &, uint32_t) {
  warp.products.fence();
}

void commitProducts(Warp &warp, const Instruction &, uint32_t) {
  warp.products.commit();
}

void waitForProducts(Warp &warp, const Instruction &op, uint32_t) {
  warp.products.wait(warp[op.operands[0]][0],
                     [&](const WarpgroupProduct &product) {
                       bool bf16 = product.op->opcode.ends_with("bf16");
                       bf16 ? multiplyRows<true>(warp, product)
                            : multiplyRows<false>(warp, product);
                     });
}

void fenceMemory(Warp &warp, const Instruction &, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t lane) {
    warp.block.shared.fence(accessOf(warp, lane));
  });
}

/// N of "m64n128k16", 0 for what is none.
uint32_t columnsOf(std::string_view shape) {
  if (!shape.starts_with("m64n") || !shape.ends_with("k16"))
    return 0;
  std::string_view digits = shape.substr(4, shape.size() - 7);
  uint32_t columns = 0;
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), columns);
  bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && columns % 8 == 0 && columns <= 256 ? columns : 0;
}

} // namespace

std::optional<Opcode> kvc::ptx::findWarpgroup(Parts parts) {
  if (parts[0] == "fence" && parts.size() >= 3 && parts[1] == "proxy" &&
      parts[2] == "async" &&
      (parts.size() == 3 || (parts.size() == 4 && parts[3] == "shared::cta")))
    return Opcode{{fenceMemory, 0}, 0};
  if (parts[0] != "wgmma" || parts.size() < 4 || parts[2] != "sync" ||
      parts[3] != "aligned")
    return std::nullopt;
  auto warp = [](Handler run, Count operands) {
    return Opcode{{run, operands}, 0, Flow::Warp};
  };
  if (parts.size() == 4) {
    if (parts[1] == "fence")
      return warp(fenceRegisters, 0);
    if (parts[1] == "commit_group")
      return warp(commitProducts, 0);
    if (parts[1] == "wait_group")
      return warp(waitForProducts, 1);
    return std::nullopt;
  }
  if (parts[1] != "mma_async" || parts.size() != 8 || parts[5] != "f32" ||
      (parts[6] != "bf16" && parts[6] != "f16") || parts[7] != parts[6])
    return std::nullopt;
  uint32_t columns = columnsOf(parts[4]);
  if (!columns)
    return std::nullopt;
  return Opcode{{beginProduct, {7, withLeftRegisters, false}},
                columns / 2,
                Flow::Warp,
                true,
                true};
}
