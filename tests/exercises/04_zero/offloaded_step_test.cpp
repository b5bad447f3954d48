// Contract of exercise 04.9: some steps with actions that only take notes, and do what was begun as
// late as possible: a block is in its buffer, or out of it, when that is waited for, and not
// before.
#include "chapters/04_zero/offload/offloaded_step.hpp"

#include <fmt/ranges.h>

#include "tests/exercises/04_zero/offload_trial.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace test;

TEST(OffloadedStep, ReadsUpdatesAndWritesAtTheSameTime) {
  for (std::size_t blocks = 0; blocks <= 12; ++blocks) {
    for (const std::size_t steps : {1U, 2U, 5U}) {
      for (const std::size_t settle_every : {0U, 1U, 2U}) {
        const std::string problem = Trial(blocks, steps, settle_every).run();
        ASSERT_TRUE(problem.empty()) << problem;
      }
    }
  }
}

TEST(OffloadedStep, WorkedByHand) {
  Trial trial(4, 2, 2);
  EXPECT_EQ(trial.run(), "");
  const std::vector<std::string> expected = {
      "",
      "begin_block(0): start_read(0, 0) start_read(1, 1) finish_read(0)",
      "end_block(0): start_write(0, 0)",
      "begin_block(1): start_read(2, 2) finish_read(1)",
      "end_block(1): start_write(1, 1)",
      "begin_block(2): finish_write(0) start_read(3, 0) finish_read(2)",
      "end_block(2): start_write(2, 2)",
      "begin_block(3): finish_read(3)",
      "end_block(3): start_write(3, 0)",
      "end_step():",
      "begin_block(0): finish_write(3) start_read(0, 0) finish_write(1) start_read(1, 1) "
      "finish_read(0)",
      "end_block(0): start_write(0, 0)",
      "begin_block(1): finish_write(2) start_read(2, 2) finish_read(1)",
      "end_block(1): start_write(1, 1)",
      "begin_block(2): finish_write(0) start_read(3, 0) finish_read(2)",
      "end_block(2): start_write(2, 2)",
      "begin_block(3): finish_read(3)",
      "end_block(3): start_write(3, 0)",
      "end_step():",
      "settle(): finish_write(3) finish_write(1) finish_write(2)",
      "settle():",
  };
  EXPECT_EQ(trial.calls(), expected);
}

}  // namespace
}  // namespace ultra::zero
