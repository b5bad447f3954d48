// Covers: common/comm/run_ranks.hpp, common/comm/backend/rank_body.hpp
// Covers: common/comm/backend/threads/thread_world.hpp
//
// Ranks as threads of this process.

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <new>
#include <thread>

#include "common/base/interrupt.hpp"
#include "common/comm/mesh.hpp"
#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

class RunRanks : public ::testing::Test {
 private:
  test::Watchdog watchdog_{std::chrono::seconds(90)};
};

/// The type of an error of a user's own.
class HouseError : public std::logic_error {
 public:
  HouseError(const std::string& text, int number) : std::logic_error(text), code(number) {}
  int code;
};

TEST_F(RunRanks, CallsTheFunctionOncePerRank) {
  for (const int size : {1, 2, 7, 16}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(size));
    run_ranks(size, [&](Communicator& world) {
      EXPECT_EQ(world.size(), size);
      EXPECT_EQ(world.name(), "world");
      EXPECT_EQ(world.world_rank(world.rank()), world.rank());
      calls[static_cast<std::size_t>(world.rank())].fetch_add(1);
    });
    for (const auto& count : calls) EXPECT_EQ(count, 1);
  }
}

TEST_F(RunRanks, RefusesAWorldOfNobody) {
  for (const int size : {0, -1, -100}) {
    const auto text = message_of<ConfigError>(
        [&] { run_ranks(size, [](Communicator&) { FAIL() << "nobody runs"; }); });
    EXPECT_THAT(text, AllOf(HasSubstr("at least 1"), HasSubstr(std::to_string(size))));
  }
}

TEST_F(RunRanks, RefusesASlowedLinkWithoutAlgorithms) {
  RankOptions options;
  options.link = LinkSpeed{.latency = 0, .bytes_per_second = 1e9};
  const auto text = message_of<ConfigError>([&] { ranks_with(options, 2, [](Communicator&) {}); });
  EXPECT_THAT(text, HasSubstr("--collectives ours"));
  options.algorithms = std::make_shared<const test::StarAlgorithms>();
  ranks_with(options, 2, [](Communicator& world) {
    EXPECT_THROW(static_cast<void>(world.with_algorithms(nullptr)), ConfigError);
    world.barrier().wait();
  });
}

/// Threads of this many bytes of stack: an address space holds one or two of them.
class HugeStacks {
 public:
  HugeStacks() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge = before_;
    pthread_attr_setstacksize(&huge, std::size_t{1} << 46U);
    pthread_setattr_default_np(&huge);
  }
  HugeStacks(const HugeStacks&) = delete;
  HugeStacks& operator=(const HugeStacks&) = delete;
  ~HugeStacks() { pthread_setattr_default_np(&before_); }

 private:
  pthread_attr_t before_{};
};

TEST_F(RunRanks, TooFewThreadsAreTheUsersConcern) {
  const HugeStacks stacks;
  const auto text = message_of<ConfigError>(
      [] { run_ranks(8, [](Communicator& world) { world.barrier().wait(); }); });
  EXPECT_THAT(text, AllOf(HasSubstr("threads, not the 8 of 8 ranks"), HasSubstr("ulimit")));
}

TEST_F(RunRanks, ARankThatIsOutOfMemoryIsNamed) {
  const auto fail_with = [](const std::function<void()>& fail) {
    return message_of<OutOfMemory>([&] {
      run_ranks(3, [&](Communicator& world) {
        if (world.rank() == 1) fail();
        world.barrier().wait();
      });
    });
  };
  EXPECT_EQ(fail_with([] { throw OutOfMemory("64 MB are too few"); }), "rank 1: 64 MB are too few");
  EXPECT_THAT(fail_with([] { throw std::bad_alloc(); }), StartsWith("rank 1: the system has no"));
}

TEST_F(RunRanks, ARankThatWaitsHearsThatTheProgramIsToStop) {
  const InterruptGuard guard;
  std::atomic<bool> heard = false;
  EXPECT_THROW(run_ranks(2,
                         [&](Communicator& world) {
                           if (world.rank() == 0) {
                             try {
                               world.barrier().wait();
                             } catch (const Interrupted&) {
                               heard = true;
                               throw;
                             }
                           }
                           std::raise(SIGINT);
                           while (!heard) std::this_thread::sleep_for(milliseconds(1));
                         }),
               Interrupted);
}

TEST_F(RunRanks, KeepsTheTypeAndTheContentOfTheFirstError) {
  try {
    run_ranks(4, [](Communicator& world) {
      if (world.rank() == 3) throw HouseError("own text", 42);
      world.barrier().wait();
    });
    FAIL() << "nothing was thrown";
  } catch (const HouseError& error) {
    EXPECT_STREQ(error.what(), "own text");
    EXPECT_EQ(error.code, 42);
  }
}

TEST_F(RunRanks, EvenWhatIsNoException) {
  const auto throw_a_number = [](Communicator& world) {
    if (world.rank() == 1) throw 42;
    try {
      world.barrier().wait();
    } catch (const RankFailed& error) {
      EXPECT_THAT(error.what(), HasSubstr("something that is not an exception"));
      throw;
    }
  };
  EXPECT_THROW(run_ranks(3, throw_a_number), int);
}

TEST_F(RunRanks, TheFirstErrorWins) {
  EXPECT_EQ(message_of<ConfigError>([] {
              run_ranks(3, [](Communicator& world) {
                if (world.rank() == 1) throw ConfigError("first");
                try {
                  world.barrier().wait();
                } catch (const RankFailed&) {
                  throw ConfigError("a later one");
                }
              });
            }),
            "first");
}

TEST_F(RunRanks, RanksMayStartRanksOfTheirOwn) {
  std::atomic<int> inner{0};
  run_ranks(2, [&](Communicator& world) {
    run_ranks(3, [&](Communicator& own) {
      const Tensor one = test::filled(Device::cpu(), {1}, DType::kF32, 1);
      own.all_reduce(one).wait();
      EXPECT_EQ(one.to_vector(), std::vector<double>{3});
      inner.fetch_add(1);
    });
    world.barrier().wait();
  });
  EXPECT_EQ(inner, 6);
}

TEST_F(RunRanks, AMeshSendsNoMessage) {
  run_ranks(8, [](Communicator& world) {
    if (world.rank() != 5) return;  // nobody else is there to answer
    const Mesh mesh(world, MeshShape({replicas(4), {.name = "tp", .size = 2, .nearness = 20}}));
    EXPECT_EQ(mesh.along("tp").world_rank(0), 4);
    EXPECT_EQ(mesh.along(kReplicaAxis).world_rank(0), 1);
    for (const CommStats::PerKind& kind : world.stats().kinds) EXPECT_EQ(kind.operations, 0U);
  });
}

TEST_F(RunRanks, TwoRunsAtOnceDoNotMeet) {
  const auto run = [](int size, double value) {
    for (int round = 0; round < 20; ++round) {
      run_ranks(size, [&](Communicator& world) {
        const Tensor data = test::filled(Device::cpu(), {2000}, DType::kF64, value);
        world.all_reduce(data).wait();
        const Communicator half = world.split([](int rank) { return rank % 2; }, "half");
        half.all_reduce(data, ReduceOp::kMax).wait();
        EXPECT_EQ(data.data<double>()[1999], value * size);
      });
    }
  };
  std::thread other(run, 3, 5.0);
  run(4, 7.0);
  other.join();
}

TEST_F(RunRanks, EachRankCountsItsOwnMemory) {
  run_ranks(3, [](Communicator& world) {
    const Device device = Device::cpu();
    const auto elements = 100 * static_cast<std::size_t>(world.rank() + 1);
    const Tensor data = Tensor::zeros(device, {elements}, DType::kF64);
    world.all_reduce(Tensor::zeros(device, {4000}, DType::kF64)).wait();
    world.barrier().wait();
    EXPECT_EQ(device.memory().current()[MemoryCategory::kOther], data.storage_bytes());
  });
}

}  // namespace
}  // namespace ultra
