// The tiny models of each family on the GPU engine. What the reference
// framework computed in fp32 is met within rounding units of the model's own
// type.

#include "test/models/Parity.h"

using namespace kvc::rt;

// fp32 as on the host. In the short types every product and every element in
// between is rounded. Measured: 50 units in fp32, 2 to 10 in the
// short ones.
static double mostUnits(kvc_dtype dtype) { return dtype == KVC_F32 ? 128 : 16; }

TEST_P(ModelParity, AtOnce) {
  open("cuda");
  EXPECT_LE(error(logits(tokens.size())), mostUnits(engine->dtype()));
}

TEST_P(ModelParity, InChunks) {
  open("cuda");
  EXPECT_LE(error(logits(7)), mostUnits(engine->dtype()));
}

TEST_P(ModelParity, TokenByToken) {
  open("cuda");
  EXPECT_LE(error(logits(1)), mostUnits(engine->dtype()));
}

INSTANTIATE_TEST_SUITE_P(Gpu, ModelParity,
                         testing::ValuesIn(fixtures("models")), fixtureName);
