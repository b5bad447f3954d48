// The executable 05_tensor_sequence_parallel under mpirun: ranks are processes.

#include <gtest/gtest.h>

#include "tests/support/programs/program.hpp"

namespace ultra::tensor_parallel {
namespace {

class SplitUnderMpirun : public ultra::test::UnderMpirun {
 protected:
  SplitUnderMpirun() : UnderMpirun("05_tensor_sequence_parallel", "3") {}
};

TEST_F(SplitUnderMpirun, ProcessesComputeWhatThreadsCompute) {
  for (const char* flags : {"--tp 4", "--tp 4 --sp on", "--tp 4 --sp on --tp-overlap ring"}) {
    expect_same_as_threads(4, flags, "1");
  }
}

TEST_F(SplitUnderMpirun, MeshesOfProcesses) {
  expect_same_as_threads(4, "--tp 2 --sp on --zero 3", "2");
}

TEST_F(SplitUnderMpirun, WhatDoesNotFitEndsWithOneError) {
  expect_refused(3, "--tp 2", "3 ranks are no whole replicas of 2 ranks each");
  expect_refused(3, "--tp 2 --dp 2", "mpirun started 3 processes");
  expect_refused(3, "--tp 3", "4 % 3 = 1");
}

}  // namespace
}  // namespace ultra::tensor_parallel
