//===- Products.h - matrix products by cuBLASLt ---------------------------===//
//
// The library is opened at run time, so that neither building nor running
// without a GPU needs CUDA. The part of its ABI that we use is in CublasLt.h.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_PRODUCTS_H
#define KVC_EXECUTOR_CUDA_PRODUCTS_H

#include "kvc/kvc.h"
#include "runtime/device/CudaDriver.h"
#include "executor/cuda/CublasLt.h"

#include <compare>
#include <map>
#include <memory>

namespace kvc::gpu {

/// y[rows, out] = x[rows, in] * weight[out, in]^T, all row-major.
struct ProductShape {
  uint32_t rows, out, in;
  bool wide; // y is fp32, else of the elements' type
  bool add;  // to y
  auto operator<=>(const ProductShape &) const = default;
};

/// Products of one element type; sums are fp32. The context must be current
/// whenever a member is called.
class Products {
public:
  /// Throws Failure where the library is missing or refuses.
  explicit Products(kvc_dtype dtype);
  ~Products();
  Products(const Products &) = delete;
  Products &operator=(const Products &) = delete;

  void multiply(const void *weight, const void *x, void *y,
                const ProductShape &shape, rt::CUstream stream);

private:
  /// A shape that was met, with the algorithm that the library advised.
  struct Planned {
    explicit Planned(const CublasLt &library) : library(library) {}
    ~Planned();
    Planned(const Planned &) = delete;
    Planned &operator=(const Planned &) = delete;
    const CublasLt &library;
    CublasLt::MatmulDesc operation = nullptr;
    CublasLt::Layout weight = nullptr, x = nullptr, y = nullptr;
    CublasLt::Algorithm algorithm = {};
  };
  std::unique_ptr<Planned> plan(const ProductShape &shape) const;

  const CublasLt &library;
  const kvc_dtype dtype;
  CublasLt::Handle handle = nullptr;
  rt::CUdeviceptr workspace = 0;
  std::map<ProductShape, std::unique_ptr<Planned>> plans;
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_PRODUCTS_H
