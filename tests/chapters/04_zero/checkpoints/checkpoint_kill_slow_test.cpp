// As checkpoint_kill_test.cpp, often enough to meet the moments between two files.

#include "tests/chapters/04_zero/checkpoints/checkpoint_kill.hpp"

namespace ultra::zero {
namespace {

using CheckpointKillSlow = test::CheckpointKillTest;

TEST_F(CheckpointKillSlow, TwoHundredTimes) { kill_trainings(200); }

}  // namespace
}  // namespace ultra::zero
