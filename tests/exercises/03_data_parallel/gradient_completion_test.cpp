// Contract of exercise 03.4: the last action that adds to a gradient, in schedules of every kind.
#include "chapters/03_data_parallel/gradient_completion.hpp"

#include <fmt/ranges.h>

#include "tests/support/toolbox.hpp"
#include "tests/support/training/schedules.hpp"

namespace ultra::data_parallel {
namespace {

using ultra::test::schedule_of;

constexpr const char* kLast =
    "Hint: the micro-batches' gradients add up. A gradient is complete when the last action has "
    "added to it, not the first: what has left must not change any more.";
constexpr const char* kOrder =
    "Hint: the order of the schedule says which action is the last, not the micro-batch's number.";
constexpr const char* kOwn =
    "Hint: only the passes of its own chunks add to a parameter's gradient: it need not wait for "
    "other chunks.";
constexpr const char* kWeights =
    "Hint: B makes the gradient of the chunk's input alone; the gradients of its weights are made "
    "by W.";
constexpr const char* kEach =
    "Hint: a parameter that several chunks use gets a contribution from each of them: it is "
    "complete behind the last of them all.";

struct Case {
  const char* schedule;
  std::vector<std::size_t> chunks;
  const char* completing;
  const char* hint;
};

TEST(GradientCompletion, IsTheLastActionThatAddsToTheGradient) {
  const std::vector<Case> cases = {
      {"F0 BW0", {0}, "BW0", kLast},
      // Gradient accumulation; one forward, one backward; backward passes in another order.
      {"F0 BW0 F1 BW1", {0}, "BW1", kLast},
      {"F0 BW0 F1 BW1 F2 BW2 F3 BW3", {0}, "BW3", kLast},
      {"F0 F1 BW0 F2 BW1 F3 BW2 BW3", {0}, "BW3", kLast},
      {"F0 F1 F2 BW2 BW0 BW1", {0}, "BW1", kOrder},
      {"F0 F1 BW1 BW0", {0}, "BW0", kOrder},
      // Two chunks of a rank, as a V and in turns.
      {"F0 F0.1 BW0.1 BW0", {0}, "BW0", kOwn},
      {"F0 F0.1 BW0.1 BW0", {1}, "BW0.1", kOwn},
      {"F0 F1 F0.1 F1.1 BW0.1 BW1.1 BW0 BW1", {1}, "BW1.1", kOwn},
      {"F0 F1 F0.1 F1.1 BW0.1 BW1.1 BW0 BW1", {0}, "BW1", kOwn},
      {"F0 F0.1 BW0.1 F1 BW0 F1.1 BW1.1 BW1", {1}, "BW1.1", kOwn},
      // B and W apart: the input's gradient is early, those of the weights come when there is time.
      {"F0 B0 W0", {0}, "W0", kWeights},
      {"F0 B0 F1 B1 W0 W1", {0}, "W1", kWeights},
      {"F0 F1 B0 B1 W1 W0", {0}, "W0", kWeights},
      {"F0 F1 B0 W0 BW1", {0}, "BW1", kWeights},
      {"F0 F1 BW0 B1 W1", {0}, "W1", kWeights},
      {"F0 F0.1 B0.1 B0 W0.1 W0", {1}, "W0.1", kWeights},
      // A weight that two chunks share.
      {"F0 F0.1 BW0.1 BW0", {0, 1}, "BW0", kEach},
      {"F0 F0.1 BW0.1 BW0", {1, 0}, "BW0", kEach},
      {"F0 F0.1 B0.1 B0 W0 W0.1", {0, 1}, "W0.1", kEach},
      {"F0 F0.1 F0.2 BW0.2 BW0.1 BW0", {1, 2}, "BW0.1", kEach},
  };
  for (const Case& c : cases) {
    const train::StepSchedule schedule = schedule_of(c.schedule);
    const std::size_t found = completing_action(schedule, c.chunks);
    EXPECT_EQ(found < schedule.size() ? schedule[found].str() : "no action", c.completing)
        << "of " << c.schedule << ", chunks " << fmt::format("{}", fmt::join(c.chunks, " and "))
        << "\n"
        << c.hint;
  }
}

TEST(GradientCompletion, WithoutSuchAnActionIsAnError) {
  const std::vector<std::size_t> chunks = {0};
  // Nothing; other chunks; forward passes alone; no pass backward of this chunk.
  for (const char* schedule : {"", "F0.1 BW0.1", "F0 F1", "F0 F0.1 BW0.1"}) {
    EXPECT_THROW(static_cast<void>(completing_action(schedule_of(schedule), chunks)), InternalError)
        << "of '" << schedule << "'\n"
        << "Hint: throw InternalError when no action of the schedule makes gradients of these "
           "chunks.";
  }
}

}  // namespace
}  // namespace ultra::data_parallel
