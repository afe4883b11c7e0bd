//===- WarpgroupProducts.h - matrix products that are under way -----------===//
//
// wgmma of PTX. Four warps multiply together, but the rows of a warp's results need the
// same warp's rows of A alone, so a warp computes its part by itself. Products are begun,
// committed to a group, and waited for by group; a product reads its operands and adds to
// its accumulators when it is waited for. Before that:
//
// - its registers belong to it: an instruction that touches one is an error, but a product
//   of the same shape into the same accumulators;
// - whoever overwrites its shared memory races (SharedMemory.h), as the memory is read
//   where it begins and again where it ends.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_WARPGROUPPRODUCTS_H
#define KVC_PTX_WARPGROUPPRODUCTS_H

#include "ptx/KeptVector.h"
#include "ptx/Program.h"

#include <deque>

namespace kvc::ptx {

/// What all warps of a warpgroup must agree on.
struct WarpgroupProduct {
  const Instruction *op;
  uint64_t a = 0, b = 0; // descriptors; no `a` where A is in registers
  bool adds = false;     // to the accumulators; else they are results only
  bool operator==(const WarpgroupProduct &) const = default;
};

/// Those of a warp.
class WarpgroupProducts {
public:
  explicit WarpgroupProducts(const Kernel &kernel);

  /// Another instruction runs. Throws Failure where it touches what is in use.
  void touch(const Instruction &op);
  /// wgmma.fence: from now on products find what the registers hold.
  void fence() { ++fences; }
  /// Throws Failure where registers are in use, or were touched since the fence.
  void begin(const WarpgroupProduct &product);
  void commit() {
    groups.push_back(std::move(open));
    open.clear();
  }
  /// The groups that have to end for `pending` to be left, oldest first.
  template <typename End> void wait(uint64_t pending, End end) {
    for (; groups.size() > pending; groups.pop_front())
      for (const WarpgroupProduct &product : groups.front())
        end(product);
    mark();
  }
  uint64_t begun = 0;

private:
  struct Use {
    const Instruction *by = nullptr; // a product that has not ended
    bool accumulates = false;
    uint32_t touched = 0; // fences + 1 when an instruction did so last
  };
  void touch(Row row);
  /// Marks the registers of products that have not ended, and no others.
  void mark();
  void take(const WarpgroupProduct &product);

  const Kernel &kernel;
  KeptVector<Use> uses; // by row
  std::vector<Row> marked;
  std::vector<WarpgroupProduct> open;
  std::deque<std::vector<WarpgroupProduct>> groups;
  uint32_t fences = 0;
};

/// The products that each warpgroup of a block began, by which its warps are compared.
class Warpgroups {
public:
  /// The `index`th product of a warp. Throws Failure where another warp of its group has
  /// another one.
  void begin(uint32_t warp, uint64_t index, const WarpgroupProduct &product);
  size_t begun(uint32_t warp) const {
    return warp / 4 < products.size() ? products[warp / 4].size() : 0;
  }

private:
  std::vector<std::vector<WarpgroupProduct>> products;
};

} // namespace kvc::ptx

#endif // KVC_PTX_WARPGROUPPRODUCTS_H
