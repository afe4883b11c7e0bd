//===- Products.cpp - matrix products by cuBLASLt -------------------------===//
//
// The library counts columns first: our y[rows, out] is its y'[out, rows], and
//
//   y'[out, rows] = weight'[in, out]^T * x'[in, rows]
//
//===----------------------------------------------------------------------===//

#include "executor/cuda/Products.h"

#include "runtime/base/Failure.h"

using namespace kvc::gpu;
namespace rt = kvc::rt;

// What NVIDIA advises for Hopper.
static constexpr size_t workspaceBytes = 32 << 20;

static int typeOf(kvc_dtype dtype) {
  return dtype == KVC_F32   ? CublasLt::f32
         : dtype == KVC_F16 ? CublasLt::f16
                            : CublasLt::bf16;
}

Products::Products(kvc_dtype dtype) : library(CublasLt::get()), dtype(dtype) {
  const rt::CudaDriver &driver = rt::CudaDriver::get();
  driver.check(driver.cuMemAlloc_v2(&workspace, workspaceBytes),
               "cuMemAlloc of a workspace for products");
  try {
    library.check(library.cublasLtCreate(&handle), "cublasLtCreate");
  } catch (...) {
    driver.cuMemFree_v2(workspace);
    throw;
  }
}

Products::~Products() {
  plans.clear();
  library.cublasLtDestroy(handle);
  rt::CudaDriver::get().cuMemFree_v2(workspace);
}

Products::Planned::~Planned() {
  for (CublasLt::Layout layout : {weight, x, y})
    if (layout)
      library.cublasLtMatrixLayoutDestroy(layout);
  if (operation)
    library.cublasLtMatmulDescDestroy(operation);
}

std::unique_ptr<Products::Planned>
Products::plan(const ProductShape &shape) const {
  auto plan = std::make_unique<Planned>(library);
  Planned &planned = *plan;
  library.check(library.cublasLtMatmulDescCreate(
                    &planned.operation, CublasLt::computeF32, CublasLt::f32),
                "cublasLtMatmulDescCreate");
  int transposed = CublasLt::transposed;
  library.check(library.cublasLtMatmulDescSetAttribute(
                    planned.operation, CublasLt::transposeA, &transposed,
                    sizeof transposed),
                "cublasLtMatmulDescSetAttribute");
  auto layout = [&](CublasLt::Layout &to, int type, uint64_t height,
                    uint64_t width) {
    library.check(library.cublasLtMatrixLayoutCreate(&to, type, height, width,
                                                     int64_t(height)),
                  "cublasLtMatrixLayoutCreate");
  };
  int type = typeOf(dtype);
  layout(planned.weight, type, shape.in, shape.out);
  layout(planned.x, type, shape.in, shape.rows);
  layout(planned.y, shape.wide ? CublasLt::f32 : type, shape.out, shape.rows);

  CublasLt::Preference preference = nullptr;
  library.check(library.cublasLtMatmulPreferenceCreate(&preference),
                "cublasLtMatmulPreferenceCreate");
  size_t most = workspaceBytes;
  CublasLt::Advice advice = {};
  int found = 0;
  CublasLt::Status status = library.cublasLtMatmulPreferenceSetAttribute(
      preference, CublasLt::maxWorkspaceBytes, &most, sizeof most);
  if (status == 0)
    status = library.cublasLtMatmulAlgoGetHeuristic(
        handle, planned.operation, planned.weight, planned.x, planned.y,
        planned.y, preference, 1, &advice, &found);
  library.cublasLtMatmulPreferenceDestroy(preference);
  std::string call = kvc::rt::formatted(
      "cublasLtMatmulAlgoGetHeuristic for {} rows, {} outputs and {} inputs",
      shape.rows, shape.out, shape.in);
  library.check(status, call);
  if (found == 0)
    throw rt::fail(KVC_DRIVER_ERROR, "{} found no algorithm", call);
  library.check(advice.state, call);
  planned.algorithm = advice.algorithm;
  return plan;
}

void Products::multiply(const void *weight, const void *x, void *y,
                        const ProductShape &shape, rt::CUstream stream) {
  std::unique_ptr<Planned> &known = plans[shape];
  if (!known)
    known = plan(shape);
  Planned &planned = *known;
  float one = 1, before = shape.add ? 1 : 0;
  library.check(library.cublasLtMatmul(
                    handle, planned.operation, &one, weight, planned.weight, x,
                    planned.x, &before, y, planned.y, y, planned.y,
                    &planned.algorithm, reinterpret_cast<void *>(workspace),
                    workspaceBytes, stream),
                "cublasLtMatmul");
}
