// What the rungs of small_launches change: who is launched, and what a recording keeps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/ladders/basics/small_launches/small_launches.hpp"
#include "kernels/simt/buffer.hpp"
#include "kernels/simt/recording.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace small_launches_ladder_test {

using simt::AccessKind;

class SmallLaunchesLadder : public test::LadderTest {
 protected:
  SmallLaunchesLadder() : LadderTest("small_launches", {6, 256}) {}
};

TEST_F(SmallLaunchesLadder, EveryRungRunsTheSameKernels) {
  const simt::Report first = counters_of("separate");
  ASSERT_EQ(first.launches.size(), 6U);
  for (const std::string& rung : emulated_rungs()) {
    const simt::Report report = counters_of(rung);
    ASSERT_EQ(report.launches.size(), 6U) << rung;
    EXPECT_EQ(report.launches[0].grid, first.launches[0].grid) << rung;
    EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors,
              first.total(AccessKind::kGlobalLoad).sectors)
        << rung;
  }
}

// Each row of weights once, and the vector for each of them.
TEST_F(SmallLaunchesLadder, ReadsEachWeightOnce) {
  EXPECT_EQ(counters_of("programmatic").total(AccessKind::kGlobalLoad).bytes,
            2U * 4 * 6 * 256 * 256);
}

TEST_F(SmallLaunchesLadder, CornersAreRight) {
  for (const std::string& rung : emulated_rungs()) {
    for (const Sizes& sizes : std::vector<Sizes>{{1, 4}, {3, 124}, {2, 1024}}) {
      expect_right(rung, {.sizes = sizes});
    }
  }
}

TEST_F(SmallLaunchesLadder, RefusesWhatItCannotDo) {
  EXPECT_THAT(refusal_of("separate", {2, 6}), testing::HasSubstr("multiple of 4"));
  EXPECT_THAT(refusal_of("programmatic", {2, 1028}),
              testing::HasSubstr("does not fit a warp's registers"));
}

// A replay does what was recorded, whatever it is given later.
TEST(SmallLaunches, ARecordingKeepsItsArguments) {
  const std::vector<float> weights(16, 0.5F);
  const std::vector<float> ones(4, 1.0F);
  const std::vector<float> twos(4, 2.0F);
  const simt::Buffer<float> w("weights", weights);
  const simt::Buffer<float> first("first", ones);
  const simt::Buffer<float> second("second", twos);
  simt::Buffer<float> out("states", std::size_t{4});
  simt::Recording recording(simt::Executor::kChecked);
  kernels::small_launches::Problem problem{.layers = 1,
                                           .hidden = 4,
                                           .weights = w.data(),
                                           .x = first.data(),
                                           .states = out.data(),
                                           .recording = &recording};
  kernels::small_launches::recorded<simt::Executor::kChecked>(problem, {});
  EXPECT_THAT(out.download(), testing::Each(2.0F));
  problem.x = second.data();
  kernels::small_launches::recorded<simt::Executor::kChecked>(problem, {});
  EXPECT_THAT(out.download(), testing::Each(2.0F));
}

}  // namespace small_launches_ladder_test
}  // namespace ultra::ladders
