#include "executor/model/Blas.h"

#include <cblas.h>
#include <gtest/gtest.h>

#include <filesystem>

using namespace kvc::rt;

static long threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

TEST(Blas, ThreadsRestUntilTheyAreNeeded) {
  constexpr int n = 256;
  std::vector<float> ones(n * n, 1), product(n * n);
  auto multiply = [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1,
                ones.data(), n, ones.data(), n, 0, product.data(), n);
    EXPECT_EQ(product, std::vector<float>(n * n, n));
  };
  int before = openblas_get_num_threads();
  openblas_set_num_threads(2);
  multiply();
  long working = threads();
  restBlasThreads();
  restBlasThreads(); // there are none any more
  EXPECT_EQ(threads(), working - 1);
  multiply();
  EXPECT_EQ(threads(), working);
  openblas_set_num_threads(before);
}
