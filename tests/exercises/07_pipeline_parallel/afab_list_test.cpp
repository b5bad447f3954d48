// Contract of exercise 07.1: all forward, then all backward.
#include "chapters/07_pipeline_parallel/lists/afab_list.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <vector>

#include "tests/exercises/07_pipeline_parallel/list_of_stages.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::ActionKind;

constexpr const char* kCount =
    "Hint: every micro-batch passes forward once and backward once, the last one too.";
constexpr const char* kWhole =
    "Hint: the backward passes are whole (kBackward), and there is one chunk, 0.";
constexpr const char* kAllForward = "Hint: no backward pass before the last forward pass.";
constexpr const char* kOrder =
    "Hint: micro-batches pass in their order, forward and backward: so gradients are summed in the "
    "same order as in every other schedule.";

TEST(AfabList, HasAllForwardPassesAndThenAllBackwardPasses) {
  for (const std::size_t m : {0U, 1U, 2U, 3U, 8U, 17U}) {
    SCOPED_TRACE(fmt::format("{} micro-batches", m));
    const train::StepSchedule list = afab_list(m);
    std::vector<std::size_t> all(m);
    std::iota(all.begin(), all.end(), std::size_t{0});
    for (const train::Action& action : list) {
      const bool is_whole =
          action.kind == ActionKind::kForward || action.kind == ActionKind::kBackward;
      ASSERT_TRUE(is_whole && action.chunk == 0) << action.str() << ": " << kWhole;
    }
    ASSERT_EQ(list.size(), 2 * m) << kCount;
    for (std::size_t i = 0; i < m; ++i) {
      ASSERT_EQ(list[i].kind, ActionKind::kForward) << list[i].str() << ": " << kAllForward;
    }
    EXPECT_EQ(test::order_of(list, ActionKind::kForward), all) << kOrder;
    EXPECT_EQ(test::order_of(list, ActionKind::kBackward), all) << kOrder;
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
