// A training that is killed at any moment leaves complete checkpoints, and ends with the losses of
// one that nobody has killed.
//
// Covers: chapters/04_zero/checkpoints/checkpoint_writer.hpp

#include "tests/chapters/04_zero/checkpoints/checkpoint_kill.hpp"

namespace ultra::zero {
namespace {

using CheckpointKill = test::CheckpointKillTest;

TEST_F(CheckpointKill, TwentyTimes) { kill_trainings(20); }

}  // namespace
}  // namespace ultra::zero
