// Barriers that count, named barriers, clusters and registers that warpgroups hand over.
// Covers: kernels/hopper/named_barrier.cuh, kernels/simt/emulator/async/barriers.hpp

#include <gtest/gtest.h>

#include <vector>

#include "kernels/hopper/prepare.cuh"
#include "kernels/hopper/wgmma.cuh"
#include "kernels/simt/emulator/async/barriers.hpp"
#include "kernels/simt/emulator/async/clock.hpp"
#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace barriers_test {

using namespace kernels::hopper;

enum class Hand { kRight, kNoWaitToWrite, kReleaseBeforeRead, kOneArrivalTooMany, kOverwritten };

struct Letter {
  int value;
  Barrier is_there;
  Barrier is_read;
};

// Warp 0 hands five numbers to warp 1, one after the other.
__global__ void hand_over_kernel(int* out, Hand manner) {
  auto& letter = aligned_shared<Letter>();
  if (threadIdx.x == 0) {
    init_barrier(letter.is_there, 1);
    init_barrier(letter.is_read, 1);
  }
  __syncthreads();
  if (threadIdx.x % 32 != 0) {
    return;
  }
  for (int round = 0; round < 5; ++round) {
    const unsigned parity = static_cast<unsigned>(round) % 2;
    if (threadIdx.x == 0) {
      if (manner != Hand::kNoWaitToWrite) {
        wait_for(letter.is_read, parity ^ 1U);
      }
      sts(&letter.value, round * round);
      if (manner == Hand::kOverwritten) {
        letter.is_there.state = 0;
      }
      arrive(letter.is_there);
      if (manner == Hand::kOneArrivalTooMany) {
        arrive(letter.is_there);
      }
    } else {
      wait_for(letter.is_there, parity);
      if (manner == Hand::kReleaseBeforeRead) {
        arrive(letter.is_read);
      }
      stg(&out[round], lds(&letter.value));
      if (manner != Hand::kReleaseBeforeRead) {
        arrive(letter.is_read);
      }
    }
  }
}

class PhasesOfThreads : public ::testing::Test {
 protected:
  void run(Hand manner) {
    launch(hand_over_kernel, one_block(64, bytes_of<Letter>()), out_.data(), manner);
  }
  Buffer<int> out_{"out", std::size_t{5}};
};

TEST_F(PhasesOfThreads, OrderOrdinaryAccesses) {
  run(Hand::kRight);
  EXPECT_EQ(out_.download(), (std::vector<int>{0, 1, 4, 9, 16}));
}

TEST_F(PhasesOfThreads, MistakesAreFound) {
  expect_fault(
      Fault::kRace,
      {"the thread writes byte 0", "which thread (32, 0, 0) reads at", "nothing orders the two"},
      [&] { run(Hand::kReleaseBeforeRead); });
  // Phases run away from their parities.
  expect_fault(Fault::kBarrier, {"no thread can go on", "waits for the phase of parity 1"},
               [&] { run(Hand::kNoWaitToWrite); });
  expect_fault(Fault::kBarrier, {"no thread can go on", "whose phase 2 has 0 of 1 arrivals"},
               [&] { run(Hand::kOneArrivalTooMany); });
  expect_fault(Fault::kBarrier, {"whose 8 bytes somebody has overwritten"},
               [&] { run(Hand::kOverwritten); });
}

enum class Turn { kRight, kOtherCount, kNobodyComes };

// Warps 0 and 1 write, and go on; warps 2 and 3 wait for them, and read.
__global__ void named_kernel(int* out, Turn manner) {
  auto* const values = dynamic_shared<int>();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < 64) {
    sts(&values[thread], thread * 3);
    if (manner == Turn::kOtherCount) {
      arrive_at_named<96>(1);
    } else if (manner != Turn::kNobodyComes || thread < 32) {
      arrive_at_named<128>(1);
    }
    return;
  }
  wait_at_named<128>(1);
  stg(&out[thread - 64], lds(&values[127 - thread]));
}

TEST(NamedBarriers, OpenWhenAllHaveCome) {
  Buffer<int> out("out", std::size_t{64});
  const auto run = [&](Turn manner) {
    launch(named_kernel, one_block(128, 256), out.data(), manner);
  };
  run(Turn::kRight);
  const std::vector<int> found = out.download();
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(at(found, i), (63 - i) * 3);
  }
  expect_fault(Fault::kBarrier, {"barrier 1 for", "expected equal numbers"},
               [&] { run(Turn::kOtherCount); });
  expect_fault(Fault::kBarrier, {"no thread can go on", "96 of 128 threads have come"},
               [&] { run(Turn::kNobodyComes); });
}

template <int given, int taken>
__global__ void registers_kernel() {
  if (warpgroup_index() == 0) {
    take_registers<taken>();  // waits for the others, who come later
  } else {
    give_registers<given>();
  }
}

TEST(Registers, AreHandedOver) {
  // 384 threads have 168 each: two warpgroups that give 128 each have 256 to give, 88 are enough.
  launch(registers_kernel<40, 256>, one_block(384));
  // Of 256 threads, 256 each: nobody can have more.
  launch(registers_kernel<248, 256>, one_block(256));
}

TEST(Registers, ThatNobodyHasGiven) {
  expect_fault(Fault::kBarrier,
               // Eight warps give 256 each, enough for two of four that want 1024.
               {"no thread can go on", "waits for registers until it has 200",
                "its block has 0 to give, expected 1024"},
               [] { launch(registers_kernel<160, 200>, one_block(384)); });
  expect_fault(Fault::kLaunch, {"gives registers back until 200 are left, but has 168"},
               [] { launch(registers_kernel<200, 168>, one_block(384)); });
  expect_fault(Fault::kLaunch, {"takes registers until it has 160, but has 168 already"},
               [] { launch(registers_kernel<160, 160>, one_block(384)); });
}

enum class Visit { kRight, kNoClusterBarrier, kNoPublish, kEndsEarly, kAbsent, kStatic };

struct Door {
  Barrier is_open;
};

// Each block of a cluster knocks at the next one's door.
__global__ void cluster_kernel(unsigned* out, unsigned blocks, Visit manner) {
  auto& door = aligned_shared<Door>();
  __shared__ unsigned own;
  const unsigned rank = rank_in_cluster();
  if (manner == Visit::kStatic) {
    sts(&own, rank);
  }
  if (threadIdx.x == 0) {
    init_barrier(door.is_open, 1);
    if (manner != Visit::kNoPublish) {
      publish_barriers();
    }
  }
  if (manner == Visit::kNoClusterBarrier) {
    __syncthreads();
  } else {
    synchronise_cluster();
  }
  if (manner == Visit::kEndsEarly && rank == 1) {
    return;
  }
  if (threadIdx.x == 0) {
    arrive_at(door.is_open, manner == Visit::kAbsent ? blocks : (rank + 1) % blocks);
    if (manner != Visit::kEndsEarly) {
      wait_for(door.is_open, 0);
    }
    stg(&out[blockIdx.x], rank + 10 * blockIdx.x);
  }
  if (manner != Visit::kEndsEarly) {
    synchronise_cluster();
  }
}

class Clusters : public ::testing::Test {
 protected:
  template <unsigned blocks>
  void run(Visit manner) {
    launch_clusters<blocks>(
        cluster_kernel,
        {.name = "kernel", .grid = {.x = 8}, .block = {.x = 64}, .shared_bytes = bytes_of<Door>()},
        out_.data(), blocks, manner);
  }
  Buffer<unsigned> out_{"out", std::size_t{8}};
};

TEST_F(Clusters, RunTogether) {
  run<4>(Visit::kRight);
  EXPECT_EQ(out_.download(), (std::vector<unsigned>{0, 11, 22, 33, 40, 51, 62, 73}));
  run<2>(Visit::kRight);
  EXPECT_EQ(out_.download(), (std::vector<unsigned>{0, 11, 20, 31, 40, 51, 60, 71}));
}

TEST_F(Clusters, MistakesAreFound) {
  expect_fault(Fault::kRace, {"of block 1 of the cluster makes with nothing in between"},
               [&] { run<2>(Visit::kNoClusterBarrier); });
  expect_fault(Fault::kRace, {"has not been shown", "publish_barriers()"},
               [&] { run<2>(Visit::kNoPublish); });
  expect_fault(Fault::kBarrier, {"of block 1 of its cluster, which may have ended by then"},
               [&] { run<2>(Visit::kEndsEarly); });
  expect_fault(Fault::kLaunch, {"of block 2 of its cluster, which has 2"},
               [&] { run<2>(Visit::kAbsent); });
  expect_fault(Fault::kLaunch, {"a __shared__ variable in a kernel of clusters"},
               [&] { run<2>(Visit::kStatic); });
}

TEST_F(Clusters, FillTheGrid) {
  expect_fault(Fault::kLaunch, {"clusters of 3 blocks in a grid of 8"},
               [&] { run<3>(Visit::kRight); });
}

}  // namespace barriers_test
}  // namespace ultra::simt::test
