// Thousands of random configurations against one rank: what a few hundred leave to chance.

#include <gtest/gtest.h>

#include "tests/chapters/11_five_d/composition/random_layouts.hpp"

namespace ultra::five_d {
namespace {

/// Shards of the 3,000 configurations, each a test of some minutes.
constexpr int kParts = 6;
constexpr std::size_t kConfigurations = 500;
constexpr std::size_t kMostRanks = 16;

class ManyLayouts : public ::testing::TestWithParam<int> {};

TEST_P(ManyLayouts, EachEqualsOneRank) {
  const std::uint64_t seed = ultra::test::seed_of_this_run() + static_cast<unsigned>(GetParam());
  SCOPED_TRACE("ULTRA_TEST_SEED=" + std::to_string(seed) + " repeats this part as the first one");
  ultra::test::Random random(seed);
  const test::Outcomes outcomes = test::train_random_layouts(random, kConfigurations, kMostRanks);
  EXPECT_EQ(outcomes.trained, kConfigurations);
}

INSTANTIATE_TEST_SUITE_P(Parts, ManyLayouts, ::testing::Range(0, kParts));

}  // namespace
}  // namespace ultra::five_d
