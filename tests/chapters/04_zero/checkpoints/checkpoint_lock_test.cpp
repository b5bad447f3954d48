// One folder of checkpoints has one run that writes to it: others are refused, or wait for its end.
//
// Covers: chapters/04_zero/checkpoints/checkpointed_worker.hpp
// Covers: chapters/04_zero/checkpoints/checkpoint_writer.hpp

#include "tests/chapters/04_zero/checkpoints/checkpoint_lock.hpp"
#include "tests/chapters/04_zero/checkpoints/checkpoint_kill.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

using CheckpointLock = CheckpointLockTest;

TEST_F(CheckpointLock, ASecondRunIsRefusedAndTouchesNothing) {
  RunningProgram first(program_words(with(kSixSteps, "--steps", kNoEnd), saving()),
                       disk.path("printed"));
  wait_for_step(2);
  first.stop();
  const auto before = tree_of(saved());
  const std::string holder = fmt::format("process {} on ", first.process());
  const ProcessResult second = failed(kSixSteps, 2,
                                      {"'" + saved() + "' belongs to another run", holder,
                                       "04_zero", "give --checkpoint another folder"},
                                      joined({"--dp", "2"}, going_on()));
  EXPECT_THAT(second.out, AllOf(HasSubstr("Waits for another run"), HasSubstr(holder)));
  EXPECT_TRUE(tree_of(saved()) == before) << "the folder has changed";
  const std::size_t step = newest_step();
  first.go_on();
  wait_for_step(step + 2);
  EXPECT_TRUE(first.kill_now());
}

/// Complete checkpoints do not change: reading needs no lock.
TEST_F(CheckpointLock, ARunThatOnlyReadsIsNotKeptOut) {
  static_cast<void>(save_all(with(kSixSteps, "--steps", "2"), {}));
  RunningProgram first(
      program_words(with(kSixSteps, "--steps", kNoEnd),
                    {"--checkpoint", saved(), "--resume", saved(), "--save-every", "1"}),
      disk.path("printed"));
  wait_for_step(3);
  first.stop();
  const ProcessResult reading = run(with(kSixSteps, "--steps", "2"), {"--resume", saved_step(2)});
  expect_success(reading);
  EXPECT_THAT(reading.out, Not(HasSubstr("Waits for another run")));
  EXPECT_TRUE(first.kill_now());
}

/// Both are new: one makes the folder and trains; the other finds what that one has made.
TEST_F(CheckpointLock, OfTwoThatStartAtTheSameMomentOneTrains) {
  const json expected = losses_of(kSixSteps, {});
  for (int round = 0; round < 8; ++round) {
    std::filesystem::remove_all(saved());
    const Words words =
        program_words(kSixSteps, {"--checkpoint", saved() + "/deep", "--save-every", "1"});
    RunningProgram first(words, disk.path("first"));
    RunningProgram second(words, disk.path("second"));
    std::vector<int> codes = {first.wait(), second.wait()};
    const std::string refused = read_file(disk.path(codes[0] == 0 ? "second" : "first"));
    std::sort(codes.begin(), codes.end());
    ASSERT_THAT(codes, ElementsAre(0, 2)) << refused;
    EXPECT_THAT(refused, AllOf(HasSubstr("holds a checkpoint of step 6 already"),
                               Not(HasSubstr("parameters in"))));
    EXPECT_THAT(names("all/deep"), ElementsAre(step_name(1), step_name(2), step_name(3),
                                               step_name(4), step_name(5), step_name(6)));
    EXPECT_EQ(losses_of(kSixSteps, {"--resume", saved("all/deep")}), expected) << "bitwise";
  }
}

/// Both go on from the same folder, again and again, in different layouts.
TEST_F(CheckpointLock, TwoThatResumeTakeTurns) {
  const Changes two_steps = with(kSixSteps, "--steps", "2");
  const json expected = losses_of(kSixSteps, {});
  static_cast<void>(save_all(two_steps, {}));
  RunningProgram first(program_words(kSixSteps, joined({"--dp", "2"}, going_on())),
                       disk.path("first"));
  RunningProgram second(program_words(kSixSteps, joined({"--dp", "4", "--zero", "3"}, going_on())),
                        disk.path("second"));
  EXPECT_EQ(first.wait(), 0) << read_file(disk.path("first"));
  EXPECT_EQ(second.wait(), 0) << read_file(disk.path("second"));
  EXPECT_THAT(names(), ElementsAre(step_name(4), step_name(5), step_name(6)));
  expect_near_losses(losses_of(kSixSteps, {"--resume", saved()}), expected, 1e-10);
}

// A training that is killed at any moment leaves complete checkpoints, and ends with the losses of
// one that nobody has killed.

using CheckpointKill = test::CheckpointKillTest;

TEST_F(CheckpointKill, TwentyTimes) { kill_trainings(20); }

}  // namespace
}  // namespace ultra::zero
