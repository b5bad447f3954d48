// The executable 06_context_parallel under mpirun: ranks are processes.

#include <gtest/gtest.h>

#include "tests/support/programs/program.hpp"

namespace ultra::context_parallel {
namespace {

class ContextUnderMpirun : public ultra::test::UnderMpirun {
 protected:
  ContextUnderMpirun() : UnderMpirun("06_context_parallel", "3") {}
};

TEST_F(ContextUnderMpirun, ProcessesComputeWhatThreadsCompute) {
  for (const char* flags :
       {"--cp 4", "--cp 4 --cp-layout contiguous --cp-method all-gather --seq 13",
        "--cp 4 --cp-method ulysses --kv-heads 4", "--cp 4 --cp-method ulysses+ring --cp-ulysses 2",
        "--cp 4 --doc-length 5"}) {
    expect_same_as_threads(4, flags, "1");
  }
}

TEST_F(ContextUnderMpirun, MeshesOfProcesses) {
  expect_same_as_threads(4, "--cp 2 --zero 3", "2");
  expect_same_as_threads(4, "--cp 2 --tp 2 --sp on", "1");
}

TEST_F(ContextUnderMpirun, WhatDoesNotFitEndsWithOneError) {
  expect_refused(3, "--cp 2", "3 ranks are no whole replicas of 2 ranks each");
  expect_refused(2, "--cp 2 --seq 3", "--seq 3 is less than the 4 chunks");
}

}  // namespace
}  // namespace ultra::context_parallel
