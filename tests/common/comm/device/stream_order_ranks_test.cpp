// Covers: common/comm/engine/operation.hpp
//
// What ranks communicate on devices is in the right order of streams without a host that waits; and
// where a program forgets the order, the emulated device says so.

#include "common/comm/engine/operation.hpp"
#include "common/gpu/order_checker.hpp"
#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

constexpr std::size_t kCount = 3000;

/// On emulated devices: with the platform's collectives, and with schedules.
class StreamOrderRanks : public OptionsRanks {
 protected:
  StreamOrderRanks() : OptionsRanks(std::chrono::seconds(30)) {}

  /// What the first rank's function throws, in words; "" when it does not.
  std::string fault_of(int size, const std::function<void(Communicator&)>& fn) {
    try {
      ranks_with(options, size, fn);
    } catch (const gpu::OrderError& error) {
      return error.what();
    } catch (const RankFailed& error) {
      return error.what();  // under mpirun: another rank's
    }
    return "";
  }
};

TEST_P(StreamOrderRanks, NoHostWaitsForADevice) {
  if (launched_world_size()) GTEST_SKIP() << "MPI reads the host's memory: its ranks must wait";
  ranks_with(options, 4, [&](Communicator& world) {
    const Tensor data = filled(kCount, world.rank());
    const Tensor part = filled(kCount / 4, 0);
    const Tensor all = filled(kCount, 0);
    const Tensor other = filled(kCount, 0);
    const std::uint64_t before = data.device().streams().synchronizations();
    for (int step = 0; step < 3; ++step) {
      Work gradients = world.all_reduce(data);
      world.ring_shift(all, other).wait();
      gradients.wait();
      world.reduce_scatter(data, part).wait();
      world.all_gather(part, all).wait();
      world.all_to_all(all, other).wait();
      world.broadcast(other, 1).wait();
      Work sending = world.send(part, world.next_rank());
      world.recv(other.slice(0, {0, kCount / 4}), world.prev_rank()).wait();
      sending.wait();
    }
    EXPECT_EQ(data.device().streams().synchronizations(), before);
  });
}

TEST_P(StreamOrderRanks, ATensorThatIsWrittenTooEarlyIsFound) {
  const std::string fault = fault_of(2, [&](Communicator& world) {
    const Tensor data = filled(kCount, 1);
    Work work = world.all_reduce(data);
    data.fill(7);  // the collective may not have read it yet
    work.wait();
  });
  EXPECT_THAT(fault, HasSubstr("fill"));
  EXPECT_THAT(fault, HasSubstr("all_reduce of 'world'"));
  EXPECT_THAT(fault, HasSubstr("communication"));
}

TEST_P(StreamOrderRanks, AResultThatIsReadTooEarlyIsFound) {
  const std::string fault = fault_of(2, [&](Communicator& world) {
    const Tensor data = filled(kCount, 1);
    Work work = world.all_reduce(data);
    world.barrier().wait();
    const Tensor copy = data.clone();
    work.wait();
  });
  EXPECT_THAT(fault, HasSubstr("all_reduce of 'world'"));
}

TEST_P(StreamOrderRanks, AMessageThatIsReadTooEarlyIsFound) {
  const std::string fault = fault_of(2, [&](Communicator& world) {
    const Tensor data = filled(kCount, world.rank());
    if (world.rank() == 0) return world.send(data, 1).wait();
    Work work = world.recv(data, 0);
    const Tensor copy = data.clone();
    work.wait();
  });
  EXPECT_THAT(fault, HasSubstr("recv of 'world'"));
}

TEST_P(StreamOrderRanks, WaitingInTheStreamThatUsesTheResultIsRight) {
  ranks_with(options, 2, [&](Communicator& world) {
    const Tensor data = filled(kCount, 1);
    Work work = world.all_reduce(data);
    const Tensor untouched = filled(kCount, 5);  // beside it
    const gpu::StreamScope copies(gpu::StreamRole::kCopy);
    work.wait();
    EXPECT_THAT(data.clone().to_vector(), Each(2.0));
  });
}

TEST_P(StreamOrderRanks, DoneIsAWaitToo) {
  ranks_with(options, 2, [&](Communicator& world) {
    const Tensor data = filled(kCount, 1);
    Work work = world.all_reduce(data);
    while (!work.done()) std::this_thread::yield();
    EXPECT_THAT(data.to_vector(), Each(2.0));
  });
}

TEST_P(StreamOrderRanks, MemoryOfAForgottenWorkIsNotReusedTooEarly) {
  ranks_with(options, 2, [&](Communicator& world) {
    for (int round = 0; round < 20; ++round) {
      std::vector<Work> forgotten;
      forgotten.push_back(world.all_reduce(filled(kCount, round)));
      forgotten.push_back(world.send(filled(kCount, round), world.next_rank()));
      world.recv(filled(kCount, 0), world.prev_rank()).wait();
    }
  });
}

TEST_P(StreamOrderRanks, WhatIsOnTheHostAndWhatIsNotDoNotMix) {
  ranks_with(options, 2, [&](Communicator& world) {
    const Tensor there = filled(6, 1);
    const Tensor host = test::filled(Device::cpu(), {6}, DType::kF32, 1);
    EXPECT_THAT(message_of<ShapeError>([&] { world.all_to_all(there, host).wait(); }),
                HasSubstr("'input' is on emulated, 'output' on cpu; copy one with to()"));
    EXPECT_THAT(message_of<ShapeError>([&] { world.ring_shift(there, host).wait(); }),
                HasSubstr("'send' is on emulated, 'receive' on cpu"));
    world.all_reduce(host).wait();  // a rank's numbers for the others, beside its model
    EXPECT_THAT(host.to_vector(), Each(2.0));
  });
}

TEST_P(StreamOrderRanks, RanksThatDisagreeOnTheMemoryAreTold) {
  if (!options.nccl_library.empty()) {
    GTEST_SKIP() << "a rank on the host never comes to NCCL: the others see a deadlock";
  }
  if (!options.algorithms || options.checking == Checking::kOn) {
    const test::Fates fates = fates_with(options, 2, [&](Communicator& world) {
      const Device own = world.rank() == 0 ? own_device() : Device::cpu();
      world.all_reduce(test::filled(own, {kCount}, DType::kF32, 1)).wait();
    });
    for (const auto& [rank, fate] : fates.ranks) {
      EXPECT_TRUE(is_a<CommMismatch>(fate.error)) << rank;
      EXPECT_THAT(fate.message, HasSubstr("f32 on emulated")) << rank;
    }
  }
  if (launched_world_size()) return;  // the bytes are the same, and MPI only sees those
  const test::Fates fates = fates_with(options, 2, [&](Communicator& world) {
    const Device own = world.rank() == 0 ? own_device() : Device::cpu();
    const Tensor data = test::filled(own, {3}, DType::kF32, 1);
    if (world.rank() == 0) return world.send(data, 1).wait();
    world.recv(data, 0).wait();
  });
  EXPECT_THAT(fates.ranks.at(1).message,
              HasSubstr("sends from the memory of a device where this rank receives into that of "
                        "the host"));
}

INSTANTIATE_TEST_SUITE_P(Backends, StreamOrderRanks, emulated_backends(), backend_name);

}  // namespace
}  // namespace ultra
