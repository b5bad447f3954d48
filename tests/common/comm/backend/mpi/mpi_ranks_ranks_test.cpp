// Covers: common/comm/backend/mpi/native_collective.hpp
//
// What the collectives compute is communicator_ranks_test.cpp's subject, under mpirun too. Here:
// run_ranks of processes: how runs end, well or not, and that all processes go on to the next.

#include "common/comm/backend/mpi/mpi_ranks.hpp"
#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

class ProcessRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!launched_world_size()) GTEST_SKIP() << "ranks are threads: run it under mpirun";
    if (*launched_world_size() < 4) GTEST_SKIP() << "needs 4 processes";
  }
};

Tensor ones(std::size_t count) { return filled(count, 1); }

RankOptions unchecked() {
  RankOptions options;
  options.checking = Checking::kOff;
  return options;
}

/// A run in which all is well.
void expect_that_ranks_still_run() {
  run_ranks(4, [](Communicator& world) {
    const Tensor data = ones(100000);
    world.all_reduce(data).wait();
    EXPECT_EQ(data.to_vector().front(), 4.0);
  });
}

TEST_F(ProcessRanks, ARankIsAProcess) {
  int calls = 0;
  int rank = -1;
  run_ranks(3, [&](Communicator& world) {
    ++calls;
    rank = world.rank();
  });
  EXPECT_EQ(calls, launched_rank() < 3 ? 1 : 0);
  EXPECT_EQ(rank, launched_rank() < 3 ? launched_rank() : -1);
}

TEST_F(ProcessRanks, ARankThatHasEndedLearnsOfALaterFailure) {
  EXPECT_THROW(run_ranks(2,
                         [](Communicator& world) {
                           if (world.rank() == 0) return;
                           std::this_thread::sleep_for(std::chrono::milliseconds(100));
                           throw std::out_of_range("late");
                         }),
               std::exception);
  expect_that_ranks_still_run();
}

TEST_F(ProcessRanks, ANativeCollectiveThatIsLeftBehindHarmsNobody) {
  for (int round = 0; round < 5; ++round) {
    EXPECT_THROW(ranks_with(unchecked(), 4,
                            [](Communicator& world) {
                              Work work = world.all_reduce(ones(1000000));
                              if (world.rank() == 1)
                                throw std::runtime_error("with work under way");
                              world.barrier().wait();
                            }),
                 std::exception);
    expect_that_ranks_still_run();
  }
}

TEST_F(ProcessRanks, WorldsOfDifferentSizesAreAMismatch) {
  EXPECT_THROW(run_ranks(launched_rank() == 1 ? 2 : 3, [](Communicator&) {}), CommMismatch);
  expect_that_ranks_still_run();
}

}  // namespace
}  // namespace ultra
