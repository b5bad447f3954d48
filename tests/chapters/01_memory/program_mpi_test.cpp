// The executable 01_memory under mpirun: it has work for one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/programs/program.hpp"

namespace ultra::memory {
namespace {

using ultra::test::ProcessResult;

class UnderMpirun : public test::UnderMpirun {
 protected:
  UnderMpirun() : test::UnderMpirun("01_memory", test::Changes{}) {}
};

TEST_F(UnderMpirun, SaysThatItNeedsOneRankHoweverManyWereStarted) {
  const ProcessResult result = start(2, {"--print-ranks"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "1\n");
}

TEST_F(UnderMpirun, RefusesToTrainOnSeveralProcesses) {
  const ProcessResult result = start(2, {"--steps", "1"});
  EXPECT_EQ(result.exit_code, 2) << result.out;
  EXPECT_THAT(result.err, testing::HasSubstr("mpirun started 2 processes"));
}

}  // namespace
}  // namespace ultra::memory
