// The emulator's functions of one instruction.
// Covers: kernels/simt/fast_math.cuh

#include "kernels/simt/fast_math.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ultra::simt {
namespace {

TEST(FastMath, PowersOfTwo) {
  for (const float x : {-125.5F, -1.0F, -0.25F, 0.0F, 0.5F, 10.0F}) {
    EXPECT_NEAR(double{exp2_flushed(x)} / std::exp2(double{x}), 1.0, 0x1p-22) << x;
  }
}

TEST(FastMath, PowersBelowTheSmallestNormalNumberAreZero) {
  EXPECT_EQ(exp2_flushed(-126.0F), 0x1p-126F);
  EXPECT_EQ(exp2_flushed(-126.5F), 0.0F);
  EXPECT_EQ(exp2_flushed(-std::numeric_limits<float>::infinity()), 0.0F);
}

}  // namespace
}  // namespace ultra::simt
