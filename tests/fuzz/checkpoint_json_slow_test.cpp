// As tests/chapters/04_zero/checkpoints/checkpoint_foreign_test.cpp, with millions of changed
// files.

#include "tests/chapters/04_zero/checkpoints/checkpoint_json_fuzz_case.hpp"

namespace ultra::zero {
namespace {

using CheckpointJsonFuzzSlow = test::CheckpointJsonFuzz;

TEST_F(CheckpointJsonFuzzSlow, MillionsOfChangedFilesAreRefusedOrConsistent) {
  expect_of_every_kind(2'500'000);
}

}  // namespace
}  // namespace ultra::zero
