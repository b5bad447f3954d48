// What each rung of swiglu_backward changes, in counters: sectors are counted in units of one
// matrix read or written once.

#include <gtest/gtest.h>

#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

constexpr std::uint64_t kTokens = 8;
constexpr std::uint64_t kFfn = 256;
constexpr std::uint64_t kMatrix = kTokens * kFfn / 8;  // sectors

class SwigluBackwardLadder : public ::testing::Test {
 protected:
  simt::Report counters_of(const char* rung) {
    return test::counted(*ladder_, test::find_rung(*ladder_, rung), {kTokens, kFfn});
  }
  void expect_the_least(const simt::Report& report) {
    const simt::Site loads = report.total(AccessKind::kGlobalLoad);
    const simt::Site stores = report.total(AccessKind::kGlobalStore);
    EXPECT_EQ(loads.sectors, 3 * kMatrix);
    EXPECT_EQ(stores.sectors, 2 * kMatrix);
    EXPECT_EQ(static_cast<double>(loads.bytes + stores.bytes),
              ladder_->cost({kTokens, kFfn}).least_bytes);
  }
  [[nodiscard]] const Ladder& ladder() const { return *ladder_; }

 private:
  std::unique_ptr<Ladder> ladder_ = test::find_ladder("swiglu_backward");
};

TEST_F(SwigluBackwardLadder, TwoKernelsMoveMore) {
  const simt::Report report = counters_of("two_kernels");
  // d_product and gate for each gradient; up.
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors, 5 * kMatrix);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors, 2 * kMatrix);
}

TEST_F(SwigluBackwardLadder, FusedMovesTheLeast) {
  const simt::Report report = counters_of("fused");
  expect_the_least(report);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors_per_request(), 4.0);
}

TEST_F(SwigluBackwardLadder, VectorsTakeAQuarterOfTheRequests) {
  const simt::Report report = counters_of("vectorised");
  expect_the_least(report);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors_per_request(), 16.0);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors_per_request(), 16.0);
}

TEST_F(SwigluBackwardLadder, LastElementsHaveAThreadEach) {
  for (const int ffn : {1, 2, 3, 4, 5, 1021, 1022, 1023, 1025}) {
    test::expect_right(ladder(), test::find_rung(ladder(), "vectorised"), {.sizes = {1, ffn}});
  }
}

}  // namespace
}  // namespace ultra::ladders
