#pragma once
/// @file
/// Trainings that last longer than the time-out of their waits.

#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel::test {

using namespace ultra::test;

/// @brief A training without an end, of steps of some milliseconds, and when it is stopped.
struct LongTraining {
  std::string schedule;
  std::chrono::milliseconds timeout;  ///< of each wait
  std::chrono::milliseconds lasts;    ///< longer than that

  /// @brief Its flags, for two stages.
  [[nodiscard]] ultra::test::Words flags() const {
    return ultra::test::flags(
        fmt::format("--pp 2 --schedule {} --clip 0 --timeout {} --layers 4 --global-batch 8 "
                    "--micro-batch 1 --steps 1000000",
                    schedule, std::chrono::duration<double>(timeout).count()));
  }
};

/// @brief One of each schedule, for one and a half time-outs and more, and one for five.
inline std::vector<LongTraining> long_trainings() {
  using namespace std::chrono_literals;
  std::vector<LongTraining> all = {{.schedule = "1f1b", .timeout = 500ms, .lasts = 2500ms}};
  for (const ScheduleChoice& choice : all_schedules()) {
    all.push_back({.schedule = choice.str(), .timeout = 500ms, .lasts = 850ms});
  }
  return all;
}

/// @brief Trainings end when they are stopped, and not by a time-out.
/// @param trainings  some of long_trainings()
/// @param run  trains, until it is stopped after `lasts`. A busy machine may keep a rank from a core
/// for as long as the time-out, which is a wait: not three times.
template <class Run>
void expect_outlive_their_timeout(const std::vector<LongTraining>& trainings, const Run& run) {
  const std::string stopped = "no result was written";
  for (const LongTraining& training : trainings) {
    SCOPED_TRACE(training.schedule);
    std::string said;
    for (int attempt = 0; attempt < 3 && said.find(stopped) == std::string::npos; ++attempt) {
      said = run(training).err;
    }
    EXPECT_THAT(said, ::testing::AllOf(::testing::HasSubstr(stopped),
                                       ::testing::Not(::testing::HasSubstr("has waited"))));
  }
}

}  // namespace ultra::pipeline_parallel::test
