// Streams of ranks that nobody can run: no two of them touch the same bytes without an order.
//
// Covers: common/train/elsewhere/record_step.hpp

#include <gtest/gtest.h>

#include <string>

#include "chapters/11_five_d/five_d.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "common/train/elsewhere/record_step.hpp"
#include "tests/support/programs/command_line.hpp"

namespace ultra::five_d {
namespace {

void expect_ordered(const std::string& flags) {
  SCOPED_TRACE(flags);
  const train::Setup setup = train::parse_setup(techniques(), ultra::test::words_of(flags));
  for (const int rank : train::ranks_that_differ(setup)) {
    EXPECT_NO_THROW(static_cast<void>(train::record_step(setup, rank, true))) << "rank " << rank;
  }
}

TEST(RecordedOrder, OfThreeAxesOn512Gpus) {
  expect_ordered(
      "--model llama-70b --tp 8 --sp on --pp 8 --dp 8 --zero 1 --recompute selective --seq 4096 "
      "--global-batch 128 --micro-batch 1 --on dgx-h100:64");
}

TEST(RecordedOrder, OfShardedWeightsAndLongSequences) {
  expect_ordered(
      "--model llama-8b --cp 8 --cp-method ring --zero 3 --seq 65536 --global-batch 64 "
      "--micro-batch 1 --on dgx-h100:64");
}

TEST(RecordedOrder, OfExpertsInAPipelineOfTwoChunks) {
  expect_ordered(
      "--model mixtral-8x7b --pp 4 --schedule interleaved:2 --ep 8 --tp 2 --zero 1 --seq 4096 "
      "--global-batch 512 --micro-batch 1 --on dgx-h100:64");
}

}  // namespace
}  // namespace ultra::five_d
