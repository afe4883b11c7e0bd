//===- FakeCublasLt.cpp - cuBLASLt's functions, on the host ---------------===//
//
// Columns first, as the library has it: D = alpha * op(A) * B + beta * C.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Half.h"
#include "executor/cuda/CublasLt.h"
#include "test/gpu/FakeQueue.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

using namespace kvc::rt;
using namespace kvc::fake;
using namespace kvc::gpu;

namespace kvc::gpu {
struct cublasLtContext {};
struct cublasLtMatmulDescOpaque {
  bool transposeA = false;
};
struct cublasLtMatrixLayoutOpaque {
  int type;
  uint64_t rows, columns;
  int64_t pitch;

  size_t elementBytes() const { return type == CublasLt::f32 ? 4 : 2; }
  size_t bytes() const {
    return ((columns - 1) * uint64_t(pitch) + rows) * elementBytes();
  }
};
struct cublasLtMatmulPreferenceOpaque {
  size_t workspace = 0;
};
} // namespace kvc::gpu

namespace {

// cublasStatus_t
enum { InvalidStatus = 7, NotSupported = 15 };
// So that an algorithm that nobody asked for is noticed.
constexpr uint64_t mark = 0x6b7663;

using Layout = const cublasLtMatrixLayoutOpaque;

float read(const void *memory, Layout &layout, uint64_t row, uint64_t column) {
  uint64_t at = column * uint64_t(layout.pitch) + row;
  if (layout.type == CublasLt::f32)
    return static_cast<const float *>(memory)[at];
  uint16_t bits = static_cast<const uint16_t *>(memory)[at];
  return layout.type == CublasLt::f16 ? fromF16(bits) : fromBF16(bits);
}

void write(void *memory, Layout &layout, uint64_t row, uint64_t column,
           float value) {
  uint64_t at = column * uint64_t(layout.pitch) + row;
  if (layout.type == CublasLt::f32)
    static_cast<float *>(memory)[at] = value;
  else
    static_cast<uint16_t *>(memory)[at] =
        layout.type == CublasLt::f16 ? toF16(value) : toBF16(value);
}

bool fits(const cublasLtMatmulDescOpaque &operation, Layout &a, Layout &b,
          Layout &c, Layout &d) {
  return operation.transposeA && a.rows == b.rows && a.columns == c.rows &&
         b.columns == c.columns && c.rows == d.rows && c.columns == d.columns &&
         a.type == b.type && c.type == d.type &&
         (c.type == a.type || c.type == CublasLt::f32);
}

} // namespace

#define KVC_FAKE_LT extern "C" __attribute__((visibility("default")))

KVC_FAKE_LT int cublasLtCreate(CublasLt::Handle *handle) {
  *handle = new cublasLtContext;
  return 0;
}
KVC_FAKE_LT int cublasLtDestroy(CublasLt::Handle handle) {
  delete handle;
  return 0;
}
KVC_FAKE_LT const char *cublasLtGetStatusString(int) {
  return "a fake refusal";
}
KVC_FAKE_LT int cublasLtMatmulDescCreate(CublasLt::MatmulDesc *operation,
                                         int compute, int scale) {
  *operation = new cublasLtMatmulDescOpaque;
  return compute == CublasLt::computeF32 && scale == CublasLt::f32
             ? 0
             : InvalidStatus;
}
KVC_FAKE_LT int cublasLtMatmulDescDestroy(CublasLt::MatmulDesc operation) {
  delete operation;
  return 0;
}
KVC_FAKE_LT int cublasLtMatmulDescSetAttribute(CublasLt::MatmulDesc operation,
                                               int which, const void *value,
                                               size_t bytes) {
  if (which != CublasLt::transposeA || bytes != sizeof(int))
    return InvalidStatus;
  operation->transposeA =
      *static_cast<const int *>(value) == CublasLt::transposed;
  return 0;
}
KVC_FAKE_LT int cublasLtMatrixLayoutCreate(CublasLt::Layout *layout, int type,
                                           uint64_t rows, uint64_t columns,
                                           int64_t pitch) {
  *layout = new cublasLtMatrixLayoutOpaque{type, rows, columns, pitch};
  return rows && columns && pitch >= int64_t(rows) ? 0 : InvalidStatus;
}
KVC_FAKE_LT int cublasLtMatrixLayoutDestroy(CublasLt::Layout layout) {
  delete layout;
  return 0;
}
KVC_FAKE_LT int
cublasLtMatmulPreferenceCreate(CublasLt::Preference *preference) {
  *preference = new cublasLtMatmulPreferenceOpaque;
  return 0;
}
KVC_FAKE_LT int
cublasLtMatmulPreferenceDestroy(CublasLt::Preference preference) {
  delete preference;
  return 0;
}
KVC_FAKE_LT int
cublasLtMatmulPreferenceSetAttribute(CublasLt::Preference preference, int which,
                                     const void *value, size_t bytes) {
  if (which != CublasLt::maxWorkspaceBytes || bytes != sizeof(size_t))
    return InvalidStatus;
  preference->workspace = *static_cast<const size_t *>(value);
  return 0;
}
KVC_FAKE_LT int cublasLtMatmulAlgoGetHeuristic(
    CublasLt::Handle, CublasLt::MatmulDesc operation, CublasLt::Layout a,
    CublasLt::Layout b, CublasLt::Layout c, CublasLt::Layout d,
    CublasLt::Preference, int wanted, CublasLt::Advice *advice, int *found) {
  *found = wanted >= 1 && fits(*operation, *a, *b, *c, *d);
  *advice = {};
  if (std::getenv("KVC_FAKE_CUBLASLT_NONE")) {
    *found = 0;
    return 0;
  }
  advice->algorithm.data[0] = mark;
  return *found ? 0 : NotSupported;
}
KVC_FAKE_LT int
cublasLtMatmul(CublasLt::Handle, CublasLt::MatmulDesc operation,
               const void *alpha, const void *a, CublasLt::Layout aLayout,
               const void *b, CublasLt::Layout bLayout, const void *beta,
               const void *c, CublasLt::Layout cLayout, void *d,
               CublasLt::Layout dLayout, const CublasLt::Algorithm *algorithm,
               void *workspace, size_t workspaceBytes, CUstream stream) {
  if (algorithm->data[0] != mark ||
      !fits(*operation, *aLayout, *bLayout, *cLayout, *dLayout))
    return InvalidStatus;
  float scale = *static_cast<const float *>(alpha),
        before = *static_cast<const float *>(beta);
  // Layouts may go before the product runs.
  Layout A = *aLayout, B = *bLayout, C = *cLayout, D = *dLayout;
  enqueue(stream, [=] {
    if (!isDevice(a, A.bytes()) || !isDevice(b, B.bytes()) ||
        !isDevice(c, C.bytes()) || !isDevice(d, D.bytes()) ||
        !isDevice(workspace, workspaceBytes))
      return fault("a product reads or writes outside its allocations");
    // The terms of all sums for one k lie together: each sum has its order, and
    // the compiler makes several at once.
    uint64_t rows = A.columns;
    std::vector<float> left(A.rows * rows), sums(rows);
    for (uint64_t i = 0; i < rows; ++i)
      for (uint64_t k = 0; k < A.rows; ++k)
        left[k * rows + i] = read(a, A, k, i);
    for (uint64_t j = 0; j < B.columns; ++j) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (uint64_t k = 0; k < B.rows; ++k) {
        float right = read(b, B, k, j);
        for (uint64_t i = 0; i < rows; ++i)
          sums[i] += left[k * rows + i] * right;
      }
      // With beta 0 C is not read: it may be anything.
      for (uint64_t i = 0; i < rows; ++i)
        write(d, D, i, j,
              scale * sums[i] + (before != 0 ? before * read(c, C, i, j) : 0));
    }
  });
  return 0;
}
