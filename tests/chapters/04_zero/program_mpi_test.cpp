// The executable 04_zero under mpirun: ranks are processes.

#include <gtest/gtest.h>

#include "tests/support/programs/program.hpp"

namespace ultra::zero {
namespace {

class ZeroUnderMpirun : public ultra::test::UnderMpirun {
 protected:
  ZeroUnderMpirun() : UnderMpirun("04_zero", "3") {}
};

TEST_F(ZeroUnderMpirun, ProcessesComputeWhatThreadsCompute) {
  for (const char* flags :
       {"--zero 1", "--zero 2", "--zero 3 --prefetch 2", "--zero 3 --shards rows"}) {
    expect_same_as_threads(3, flags, "3");
  }
}

TEST_F(ZeroUnderMpirun, NodesOfProcesses) {
  const char* refusal = "3 ranks are not whole nodes of 2";
  expect_same_as_threads(4, "--zero 3 --hybrid-shard 2", "4");
  expect_refused(3, "--zero 3 --hybrid-shard 2", refusal);
  expect_same_as_threads(
      4, "--zero 3 --zero++ weights-int8,hierarchical,gradients-int4 --node-size 2", "4");
  expect_refused(3, "--zero 3 --zero++ hierarchical --node-size 2", refusal);
}

TEST_F(ZeroUnderMpirun, ProcessesWithoutMemoryEndWithOneError) {
  expect_refused(3, "--zero 2 --device-memory 20kB", "out of device memory");
}

}  // namespace
}  // namespace ultra::zero
