// The executables of chapter 03 under mpirun: replicas and servers are processes.

#include <gtest/gtest.h>

#include "tests/support/programs/program.hpp"

namespace ultra::data_parallel {
namespace {

class DataParallelUnderMpirun : public ultra::test::UnderMpirun {
 protected:
  DataParallelUnderMpirun() : UnderMpirun("03_data_parallel", "4") {}
};

class ParameterServerUnderMpirun : public ultra::test::UnderMpirun {
 protected:
  ParameterServerUnderMpirun() : UnderMpirun("03_parameter_server", "4") {}
};

TEST_F(ParameterServerUnderMpirun, WhatServersLeaveAreReplicas) {
  expect_same_as_threads(4, "--servers 2 --priority priority", "2");
}

TEST_F(ParameterServerUnderMpirun, TheWrongNumberOfProcessesIsRefused) {
  expect_refused(2, "--dp 2", "--dp 2 and --servers 1: 3 ranks are needed, but mpirun started 2");
}

TEST_F(DataParallelUnderMpirun, TheWrongNumberOfProcessesIsRefused) {
  expect_refused(3, "--dp 2", "--dp 2: 2 ranks are needed, but mpirun started 3");
}

}  // namespace
}  // namespace ultra::data_parallel
