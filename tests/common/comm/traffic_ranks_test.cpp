// Covers: common/comm/traffic.hpp
//
// What communicators count of messages and groups. Of collectives it is what the closed forms say:
// collective_call_test.cpp, and by schedules meta_world_test.cpp.

#include "common/comm/traffic.hpp"

#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

class TrafficRanks : public DeviceRanks {
 protected:
  static Tensor elements(std::size_t count) {
    return Tensor::zeros(own_device(), {count}, DType::kF32);
  }

  const int size = static_cast<int>(random.pick<std::size_t>({1, 2, 3, 5, 8}));
  const std::size_t n = random.between(0, 3000);
};

TEST_P(TrafficRanks, MessagesCountAtTheSenderAndToOthersOnly) {
  ranks_with({}, size, [&](Communicator& world) {
    const Tensor out = elements(n);
    const Tensor in = elements(n);
    world.ring_shift(out, in).wait();
    world.ring_shift(out, in, size).wait();  // to itself
    const std::size_t expected = size == 1 ? 0 : 4 * n;
    EXPECT_EQ(world.stats()[OpKind::kSend], (CommStats::PerKind{2, expected}));
    Work sending = world.send(out, world.next_rank());
    world.recv(in, world.prev_rank()).wait();
    sending.wait();
    EXPECT_EQ(world.stats()[OpKind::kSend], (CommStats::PerKind{3, 2 * expected}));
    EXPECT_EQ(world.stats()[OpKind::kRecv], (CommStats::PerKind{1, 0}));
    EXPECT_EQ(world.stats().sent_bytes(), 2 * expected);
  });
}

TEST_P(TrafficRanks, AllGroupsOfARankCountTogether) {
  ranks_with({}, 4, [&](Communicator& world) {
    const Communicator half = world.split([](int rank) { return rank / 2; }, "half");
    EXPECT_EQ(world.stats().sent_bytes(), 0U) << "who is in which group, everybody knows";
    const Tensor data = elements(10);
    half.all_reduce(data).wait();
    world.all_reduce(data).wait();
    EXPECT_EQ(half.stats()[OpKind::kAllReduce].operations, 2U);
    EXPECT_EQ(world.stats()[OpKind::kAllReduce], half.stats()[OpKind::kAllReduce]);
  });
}

INSTANTIATE_TEST_SUITE_P(On, TrafficRanks, devices(), device_name);

}  // namespace
}  // namespace ultra
