// What each rung of rms_norm changes, in counters: sectors are counted in units of one matrix read
// or written once.

#include <gtest/gtest.h>

#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

constexpr std::uint64_t kRows = 32;  // a warp of rung 1
constexpr std::uint64_t kHidden = 512;
constexpr std::uint64_t kMatrix = kRows * kHidden / 8;  // sectors

class RmsNormLadder : public ::testing::Test {
 protected:
  simt::Report counters_of(const char* rung) {
    return test::counted(*ladder_, test::find_rung(*ladder_, rung), {kRows, kHidden});
  }
  [[nodiscard]] const Ladder& ladder() const { return *ladder_; }

 private:
  std::unique_ptr<Ladder> ladder_ = test::find_ladder("rms_norm");
};

TEST_F(RmsNormLadder, AThreadPerRowTouchesASectorPerLane) {
  const simt::Report report = counters_of("thread_per_row");
  // The addition is coalesced. Every load of h and store of y takes 32 sectors for 128 bytes, 8
  // times what is needed; h is loaded twice; a load of weight is one address.
  const simt::Site loads = report.total(AccessKind::kGlobalLoad);
  EXPECT_EQ(loads.sectors, 2 * kMatrix + 2 * 8 * kMatrix + kHidden);
  const simt::Site stores = report.total(AccessKind::kGlobalStore);
  EXPECT_EQ(stores.sectors, kMatrix + 8 * kMatrix + kRows / 8);
}

TEST_F(RmsNormLadder, AWarpPerRowTouchesFourSectors) {
  const simt::Report report = counters_of("warp_per_row");
  // x and residual; h twice; weight for each row.
  const simt::Site loads = report.total(AccessKind::kGlobalLoad);
  EXPECT_EQ(loads.sectors, 5 * kMatrix);
  EXPECT_EQ(loads.sectors_per_request(), 4.0);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors, 2 * kMatrix + kRows);
}

TEST_F(RmsNormLadder, VectorsTakeAQuarterOfTheRequests) {
  const simt::Site scalar = counters_of("warp_per_row").total(AccessKind::kGlobalLoad);
  const simt::Site vector = counters_of("vectorised").total(AccessKind::kGlobalLoad);
  EXPECT_EQ(vector.sectors, scalar.sectors);
  EXPECT_EQ(4 * vector.requests, scalar.requests);
}

TEST_F(RmsNormLadder, RegistersSaveTheSecondRead) {
  const simt::Report report = counters_of("in_registers");
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors, 4 * kMatrix);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors, 2 * kMatrix + kRows);
}

TEST_F(RmsNormLadder, FusedMovesTheLeast) {
  const simt::Report report = counters_of("fused");
  EXPECT_EQ(report.launches.size(), 1U);
  const simt::Site loads = report.total(AccessKind::kGlobalLoad);
  const simt::Site stores = report.total(AccessKind::kGlobalStore);
  EXPECT_EQ(loads.sectors, 3 * kMatrix);
  EXPECT_EQ(loads.sectors_per_request(), 16.0);
  EXPECT_EQ(stores.sectors, 2 * kMatrix + kRows);
  // All but weight, which every row reads, comes and goes once.
  const std::uint64_t repeated = (kRows - 1) * kHidden * sizeof(float);
  EXPECT_EQ(static_cast<double>(loads.bytes + stores.bytes - repeated),
            ladder().cost({kRows, kHidden}).least_bytes);
}

TEST_F(RmsNormLadder, RowsOfABlockHaveALimit) {
  for (const char* rung : {"in_registers", "fused"}) {
    const int number = test::find_rung(ladder(), rung);
    test::expect_right(ladder(), number, {.sizes = {1, 16384}, .side = simt::Side::kBare});
    test::expect_right(ladder(), number, {.sizes = {1, 16383}, .side = simt::Side::kBare});
    EXPECT_NE(ladder().refusal(number, {1, 16385}, simt::Side::kBare), "");
  }
}

}  // namespace
}  // namespace ultra::ladders
