// A training may last longer than the time-out of its waits, whatever its schedule.
//
// Covers: common/comm/engine/progress_engine.hpp
#include "tests/chapters/07_pipeline_parallel/long_training.hpp"

#include <csignal>

namespace ultra::pipeline_parallel {
namespace {

TEST(LongTraining, IsNoLongWait) {
  test::expect_outlive_their_timeout(
      test::long_trainings(), [](const test::LongTraining& training) {
        return ultra::test::interrupt_program("07_pipeline_parallel", training.flags(), SIGTERM,
                                              training.lasts, std::chrono::seconds(10));
      });
}

}  // namespace
}  // namespace ultra::pipeline_parallel
