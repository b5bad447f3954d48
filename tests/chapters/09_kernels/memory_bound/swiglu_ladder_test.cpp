// What each rung of swiglu and of swiglu_backward changes, in counters: sectors are counted in
// units of one matrix read or written once.

#include <gtest/gtest.h>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace swiglu_ladder_test {

constexpr std::uint64_t kTokens = 8;
constexpr std::uint64_t kFfn = 256;
constexpr std::uint64_t kMatrix = kTokens * kFfn / 8;  // sectors

// Matrices that a ladder's rungs load and store.
struct Matrices {
  const char* ladder;
  std::uint64_t loads;
  std::uint64_t stores;
  std::uint64_t loads_of_two_kernels;
  std::uint64_t stores_of_two_kernels;
};

class SwigluLadders : public test::LadderTest, public ::testing::WithParamInterface<Matrices> {
 protected:
  SwigluLadders() : LadderTest(GetParam().ladder, {kTokens, kFfn}) {}

  void expect_the_least(const simt::Report& report) {
    expect_sectors(report, GetParam().loads * kMatrix, GetParam().stores * kMatrix);
    EXPECT_EQ(bytes_asked(report), least_bytes());
  }
};

INSTANTIATE_TEST_SUITE_P(All, SwigluLadders,
                         ::testing::Values(
                             // In two kernels: gate; what silu left, and up.
                             Matrices{"swiglu", 2, 1, 3, 2},
                             // In two kernels: d_product and gate for each gradient; up.
                             Matrices{"swiglu_backward", 3, 2, 5, 2}),
                         [](const auto& matrices) { return matrices.param.ladder; });

TEST_P(SwigluLadders, TwoKernelsMoveMore) {
  expect_sectors(counters_of("two_kernels"), GetParam().loads_of_two_kernels * kMatrix,
                 GetParam().stores_of_two_kernels * kMatrix);
}

TEST_P(SwigluLadders, FusedMovesTheLeast) {
  const simt::Report report = counters_of("fused");
  expect_the_least(report);
  EXPECT_EQ(report.total(simt::AccessKind::kGlobalLoad).sectors_per_request(), 4.0);
}

TEST_P(SwigluLadders, VectorsTakeAQuarterOfTheRequests) {
  const simt::Report report = counters_of("vectorised");
  expect_the_least(report);
  expect_sectors_per_request(report, 16.0, 16.0);
}

TEST_P(SwigluLadders, LastElementsHaveAThreadEach) {
  for (const int ffn : {1, 2, 3, 4, 5, 1021, 1022, 1023, 1025}) {
    expect_right("vectorised", {.sizes = {1, ffn}});
  }
}

}  // namespace swiglu_ladder_test
}  // namespace ultra::ladders
