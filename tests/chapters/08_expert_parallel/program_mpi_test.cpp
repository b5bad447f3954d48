// The executable 08_expert_parallel under mpirun: ranks are processes.

#include <gtest/gtest.h>

#include "tests/support/programs/program.hpp"

namespace ultra::expert_parallel {
namespace {

class ExpertsUnderMpirun : public ultra::test::UnderMpirun {
 protected:
  ExpertsUnderMpirun() : UnderMpirun("08_expert_parallel", "3") {}
};

TEST_F(ExpertsUnderMpirun, ProcessesComputeWhatThreadsCompute) {
  for (const char* flags : {"--experts 8 --ep 4", "--experts 8 --ep 2 --shared-experts 1 --zero 3",
                            "--experts 4 --ep 4 --top-k 1 --capacity-factor 0.7",
                            "--experts 8 --ep 4 --router sigmoid --balance bias --bias-rate 10"}) {
    expect_same_as_threads(4, flags, "4");
  }
}

TEST_F(ExpertsUnderMpirun, MeshesOfProcesses) {
  expect_same_as_threads(4, "--cp 2 --experts 8 --ep 4", "2");
  expect_same_as_threads(4, "--tp 2 --experts 4 --ep 2", "2");
}

TEST_F(ExpertsUnderMpirun, WhatDoesNotFitEndsWithOneError) {
  expect_refused(2, "--experts 3 --ep 2", "--ep must divide --experts");
  expect_refused(3, "--experts 2 --ep 2", "--ep must divide the ranks");
}

}  // namespace
}  // namespace ultra::expert_parallel
