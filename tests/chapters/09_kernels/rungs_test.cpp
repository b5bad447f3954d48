// Every rung of every ladder computes what an f64 loop computes, for any shape, with no fault of
// the emulator's. Covers: chapters/09_kernels/ladder_of.hpp chapters/09_kernels/rung.hpp

#include <filesystem>

#include "build_config.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/problem_buffers.hpp"
#include "tests/support/contracts/kernels.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ladders::rungs_test {

struct RungCase {
  std::string ladder;
  int rung;
  std::string name;
};

std::vector<RungCase> all_rungs() {
  std::vector<RungCase> cases;
  for (const auto& ladder : all_ladders()) {
    for (const RungInfo& rung : ladder->rungs()) {
      cases.push_back({.ladder = ladder->info().name, .rung = rung.number, .name = rung.name});
    }
  }
  return cases;
}

class RungTest : public test::RandomTest, public ::testing::WithParamInterface<RungCase> {};

TEST_P(RungTest, IsRightForAnyShape) {
  const auto ladder = test::find_ladder(GetParam().ladder);
  test::expect_right_everywhere(*ladder, GetParam().rung, random, 4);
}

INSTANTIATE_TEST_SUITE_P(All, RungTest, ::testing::ValuesIn(all_rungs()), [](const auto& rung) {
  return rung.param.ladder + "_" + std::to_string(rung.param.rung) + "_" + rung.param.name;
});

TEST(ProblemBuffers, GiveBackWhatPointersLeadTo) {
  ProblemBuffers buffers(simt::Executor::kChecked);
  const std::vector<float> values{1.0F, 2.0F};
  const float* const in = buffers.input("in", values);
  const float* const out = buffers.output("out", 3);
  EXPECT_EQ(buffers.download(in), values);
  EXPECT_THAT(buffers.download(out),
              testing::AllOf(testing::SizeIs(3), testing::Each(testing::IsNan())));
  EXPECT_THROW(static_cast<void>(buffers.download(in + 1)), std::invalid_argument);
}

TEST(Ladders, AreInOrder) {
  for (const auto& ladder : all_ladders()) {
    int number = 1;
    for (const RungInfo& rung : ladder->rungs()) {
      EXPECT_EQ(rung.number, number++) << ladder->info().name;
      EXPECT_FALSE(rung.idea.empty());
      EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(build::kSourceDir) / rung.file))
          << rung.file;
      EXPECT_EQ(rung.exercise.empty(), rung.file.starts_with("kernels/")) << rung.file;
    }
  }
}

}  // namespace ultra::ladders::rungs_test
