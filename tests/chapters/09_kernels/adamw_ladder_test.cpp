// What each rung of adamw changes, in counters.

#include <gtest/gtest.h>

#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class AdamWLadder : public ::testing::Test {
 protected:
  simt::Report counters_of(const char* rung, const Sizes& sizes) {
    return test::counted(*ladder, test::find_rung(*ladder, rung), sizes);
  }

  // Bytes that lanes ask for: tensors of any length, without the rest of their last sectors.
  static double bytes_asked(const simt::Report& report) {
    return static_cast<double>(report.total(AccessKind::kGlobalLoad).bytes +
                               report.total(AccessKind::kGlobalStore).bytes);
  }

  std::unique_ptr<Ladder> ladder = test::find_ladder("adamw");
};

TEST_F(AdamWLadder, UnfusedMoves64BytesPerParameter) {
  const simt::Report report = counters_of("unfused", {4, 300});
  EXPECT_EQ(bytes_asked(report), 64.0 * 4 * 300);
  EXPECT_EQ(report.launches.size(), 6U * 4);
}

TEST_F(AdamWLadder, FusedMovesTheLeast) {
  const double least = ladder->cost({4, 300}).least_bytes;
  for (const char* const rung : {"fused", "vectorised", "multi_tensor"}) {
    EXPECT_EQ(bytes_asked(counters_of(rung, {4, 300})), least) << rung;
  }
  EXPECT_EQ(least, 28.0 * 4 * 300);
  EXPECT_EQ(counters_of("fused", {4, 300}).launches.size(), 4U);
}

// One tensor has the average length: here, whole warps of vectors.
TEST_F(AdamWLadder, VectorisedNeedsAQuarterOfTheRequests) {
  const Sizes sizes = {1, 2048};
  const simt::Report fused = counters_of("fused", sizes);
  for (const char* const rung : {"vectorised", "multi_tensor"}) {
    SCOPED_TRACE(rung);
    const simt::Report report = counters_of(rung, sizes);
    for (const AccessKind kind : {AccessKind::kGlobalLoad, AccessKind::kGlobalStore}) {
      EXPECT_EQ(4 * report.total(kind).requests, fused.total(kind).requests);
      EXPECT_EQ(report.total(kind).sectors, fused.total(kind).sectors);
    }
    EXPECT_EQ(32.0 * static_cast<double>(report.total(AccessKind::kGlobalLoad).sectors +
                                         report.total(AccessKind::kGlobalStore).sectors),
              ladder->cost(sizes).least_bytes);
  }
}

TEST_F(AdamWLadder, MultiTensorLaunchesOncePer64Tensors) {
  EXPECT_EQ(counters_of("multi_tensor", {64, 9}).launches.size(), 1U);
  EXPECT_EQ(counters_of("multi_tensor", {65, 9}).launches.size(), 2U);
  EXPECT_EQ(counters_of("multi_tensor", {3, 9000}).launches.size(), 1U);
}

}  // namespace
}  // namespace ultra::ladders
