// What each rung of matmul_fp32 changes, in counters.

#include <gtest/gtest.h>

#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class MatmulFp32Ladder : public ::testing::Test {
 protected:
  // Sizes of whole blocks, so that every warp is full.
  simt::Report counters_of(const char* rung, int size = 64) {
    return test::counted(*ladder_, test::find_rung(*ladder_, rung), {size, size, size});
  }

 private:
  std::unique_ptr<Ladder> ladder_ = test::find_ladder("matmul_fp32");
};

TEST_F(MatmulFp32Ladder, NaiveTouchesASectorPerLane) {
  const simt::Report report = counters_of("naive");
  // Loads: 32 sectors for a and 1 for b per pair of requests.
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors_per_request(), (32.0 + 1.0) / 2.0);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors_per_request(), 32.0);
}

TEST_F(MatmulFp32Ladder, CoalescedTouchesFour) {
  const simt::Report report = counters_of("coalesced");
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors_per_request(), (1.0 + 4.0) / 2.0);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors_per_request(), 4.0);
}

}  // namespace
}  // namespace ultra::ladders
