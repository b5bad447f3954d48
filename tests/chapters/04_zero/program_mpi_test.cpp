// The executable 04_zero under mpirun: ranks are processes.

#include <gtest/gtest.h>

#include "tests/chapters/03_data_parallel/under_mpirun.hpp"

namespace ultra::zero {
namespace {

using data_parallel::test::Words;

class ZeroUnderMpirun : public data_parallel::test::UnderMpirun {
 protected:
  ZeroUnderMpirun() : UnderMpirun("04_zero", "3") {}
};

TEST_F(ZeroUnderMpirun, ProcessesComputeWhatThreadsCompute) {
  for (const Words& flags :
       {Words{"--zero", "1"}, Words{"--zero", "2"}, Words{"--zero", "3", "--prefetch", "2"}}) {
    expect_same_as_threads(3, flags, "3");
  }
}

TEST_F(ZeroUnderMpirun, NodesOfProcesses) {
  expect_same_as_threads(4, {"--zero", "3", "--hybrid-shard", "2"}, "4");
}

TEST_F(ZeroUnderMpirun, NodesThatAreNotWholeAreRefused) {
  expect_refused(3, {"--zero", "3", "--hybrid-shard", "2"}, "3 ranks are not whole nodes of 2");
}

TEST_F(ZeroUnderMpirun, ZeroPlusPlusOnNodesOfProcesses) {
  expect_same_as_threads(
      4,
      {"--zero", "3", "--zero++", "weights-int8,hierarchical,gradients-int4", "--node-size", "2"},
      "4");
  expect_refused(3, {"--zero", "3", "--zero++", "hierarchical", "--node-size", "2"},
                 "3 ranks are not whole nodes of 2");
}

TEST_F(ZeroUnderMpirun, ProcessesWithoutMemoryEndWithOneError) {
  expect_refused(3, {"--zero", "2", "--device-memory", "20kB"}, "out of device memory");
}

}  // namespace
}  // namespace ultra::zero
