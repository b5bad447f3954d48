// As tests/common/checkpoint/safetensors/safetensors_fuzz_test.cpp, with millions of changed files.

#include "tests/common/checkpoint/safetensors/safetensors_fuzz_case.hpp"

namespace ultra::checkpoint {
namespace {

using SafetensorsFuzzSlow = SafetensorsFuzz;

TEST_F(SafetensorsFuzzSlow, MillionsOfChangedFilesAreRefusedOrConsistent) {
  expect_refused_or_consistent(2'500'000);
}

}  // namespace
}  // namespace ultra::checkpoint
