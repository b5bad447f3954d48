// The book's promise: every technique with every other, on any mesh, is the training of one rank.
//
// Covers: chapters/11_five_d/five_d.hpp

#include <gtest/gtest.h>

#include "common/comm/run_ranks.hpp"
#include "tests/chapters/11_five_d/composition/draw.hpp"
#include "tests/chapters/11_five_d/composition/explained.hpp"
#include "tests/chapters/11_five_d/composition/random_layouts.hpp"
#include "tests/chapters/11_five_d/composition/trial.hpp"

namespace ultra::five_d {
namespace {

using namespace five_d::test;

class RandomLayouts : public ultra::test::RandomTest {};

// Processes train some; threads enough that all that goes together has been together.
TEST_F(RandomLayouts, EachEqualsOneRank) {
  const auto processes = launched_world_size();
  const std::size_t most_ranks = processes ? static_cast<std::size_t>(*processes) : 16;
  const Outcomes outcomes = train_random_layouts(random, processes ? 6 : 300, most_ranks);
  if (processes || HasFailure()) return;
  EXPECT_EQ(outcomes.trained, 300U);
  const std::vector<train::Conflict> table = table_of_combinations();
  for (const std::vector<Feature>& some : outcomes.coverage.missing()) {
    EXPECT_TRUE(excluded(table, some)) << names_of(some) << " have not trained together";
  }
}

/// The losses of one rank that trains in the same types.
TEST_F(RandomLayouts, InNumbersOfTwoBytesEachIsNearOneRank) {
  if (launched_world_size()) return;
  for (int trained = 0; trained < 30;) {
    Configuration one = draw_configuration(random, 8).with("--dtype", "f32");
    one.model.emplace_back("--precision", random.pick({"bf16", "bf16", "fp16"}));
    if (random.between(1, 3) == 1) one.model.emplace_back("--grad-dtype", "f32");
    if (one.value_of("--schedule") == "pipedream-async" || !refusal_of(one).empty()) continue;
    ++trained;
    EXPECT_EQ(difference_from_one_rank(one), "") << one.line();
  }
}

}  // namespace
}  // namespace ultra::five_d
