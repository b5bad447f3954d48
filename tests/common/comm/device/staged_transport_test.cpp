// Two ranks' transports, which are told nothing of devices, in the hands of one thread.
//
// Covers: common/comm/device/staging.hpp, common/comm/device/staged_transport.hpp
// Covers: common/comm/device/polling.hpp
// Covers: common/comm/device/memory_ops.hpp

#include "common/comm/device/staged_transport.hpp"

#include "common/comm/backend/threads/thread_world.hpp"
#include "common/comm/collectives/collective_call.hpp"
#include "common/comm/device/memory_ops.hpp"
#include "common/comm/engine/tensor_bytes.hpp"
#include "tests/common/comm/comm_test.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::comm {
namespace {

constexpr Tag kTag{.use = Tag::Use::kPointToPoint, .lane = 0, .sequence = 0};

class StagedTransport : public ::testing::Test {
 protected:
  static constexpr int kSize = 2;

  /// A rank's tensor, and how a transport is given it.
  Tensor tensor(int rank, const std::vector<double>& values) {
    return Tensor::from<double>(device(rank), {values.size()}, values);
  }
  Place place(const Tensor& tensor) {
    const DevicePart part({tensor}, "a test");
    return {part.device(), part.ready()};
  }
  std::unique_ptr<Request> send(int from, const Tensor& data, int to) {
    return at(from).isend({memory_of(data), std::make_shared<Tensor>(data), place(data)}, to, kTag);
  }
  std::unique_ptr<Request> receive(int at_rank, const Tensor& data, int from,
                                   std::optional<Combine> combine = {}) {
    return at(at_rank).irecv(
        {memory_of(data), combine, std::make_shared<Tensor>(data), place(data)}, from, kTag);
  }
  void wait_in_stream(const Tensor& data, const Request& request) {
    data.device().streams().wait(gpu::StreamRole::kCompute, request.ended_at());
  }
  Transport& at(int rank) { return *ranks[static_cast<std::size_t>(rank)]; }
  const Device& device(int rank) { return devices[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<threads::ThreadWorld> world = std::make_shared<threads::ThreadWorld>(kSize);
  std::vector<Device> devices = {Device::create(DeviceKind::kEmulated, 0),
                                 Device::create(DeviceKind::kEmulated, 1)};
  std::shared_ptr<Polling> polling = std::make_shared<Polling>();
  std::shared_ptr<Staging> staging = std::make_shared<Staging>(polling);
  std::vector<std::unique_ptr<Transport>> ranks = [this] {
    std::vector<std::unique_ptr<Transport>> made;
    for (int rank = 0; rank < kSize; ++rank) {
      made.push_back(staged(threads::make_transport(world, rank), staging));
    }
    return made;
  }();
};

TEST_F(StagedTransport, KnowsItsPlace) {
  EXPECT_EQ(at(1).rank(), 1);
  EXPECT_EQ(at(1).size(), 2);
  EXPECT_EQ(at(0).world_rank(1), 1);
}

TEST_F(StagedTransport, AMessageReachesTheOtherDevice) {
  const Tensor data = tensor(0, {1, 2, 3});
  const Tensor got = tensor(1, {0, 0, 0});
  const auto sending = send(0, data, 1);
  EXPECT_TRUE(polling->next_look()) << "the copy from the device has not been looked at";
  const auto receiving = receive(1, got, 0);
  EXPECT_FALSE(receiving->test());
  EXPECT_FALSE(sending->test());
  EXPECT_FALSE(polling->next_look());
  EXPECT_TRUE(receiving->test());
  EXPECT_TRUE(sending->test());
  wait_in_stream(got, *receiving);
  EXPECT_EQ(got.to_vector(), data.to_vector());
}

TEST_F(StagedTransport, AMessageIsCombinedOnTheDevice) {
  const Tensor data = tensor(0, {1, 2, 3});
  const Tensor sum = tensor(1, {10, 20, 30});
  const auto receiving = receive(1, sum, 0, Combine{DType::kF64, ReduceOp::kSum});
  const auto sending = send(0, data, 1);
  EXPECT_FALSE(sending->test());
  EXPECT_TRUE(receiving->test());
  EXPECT_TRUE(sending->test());
  wait_in_stream(sum, *receiving);
  EXPECT_THAT(sum.to_vector(), ElementsAre(11, 22, 33));
}

TEST_F(StagedTransport, AnEmptyMessageArrivesToo) {
  const Tensor nothing = tensor(0, {});
  const Tensor nowhere = tensor(1, {});
  const auto sending = send(0, nothing, 1);
  const auto receiving = receive(1, nowhere, 0);
  EXPECT_FALSE(sending->test());
  EXPECT_TRUE(receiving->test());
  EXPECT_TRUE(sending->test());
}

TEST_F(StagedTransport, AMessageThatIsDroppedIsWithdrawn) {
  send(0, tensor(0, {1}), 1).reset();
  EXPECT_FALSE(polling->next_look());
  const Tensor got = tensor(1, {0});
  const auto receiving = receive(1, got, 0);
  EXPECT_FALSE(receiving->test());
}

TEST_F(StagedTransport, TheHostsMemoryTakesNoDetour) {
  const std::vector<std::byte> data(3, std::byte{7});
  std::vector<std::byte> got(3);
  const auto sending = at(0).isend({std::span(data), {}}, 1, kTag);
  const auto receiving = at(1).irecv({std::span(got), {}, {}}, 0, kTag);
  EXPECT_TRUE(receiving->test());
  EXPECT_EQ(got, data);
  EXPECT_FALSE(polling->next_look());
}

TEST_F(StagedTransport, ACollectiveTakesTheDetourAndBack) {
  const auto each = [&](const auto& call_of) {
    std::vector<std::shared_ptr<Operation>> operations;
    for (int rank = 0; rank < kSize; ++rank) {
      operations.push_back(at(rank).native(call_of(rank), Checking::kOff));
    }
    std::vector<bool> ended(kSize, false);
    for (int round = 0; round < 10; ++round) {
      for (std::size_t i = 0; i < kSize; ++i) ended[i] = ended[i] || operations[i]->advance();
    }
    EXPECT_THAT(ended, Each(true));
    for (const auto& operation : operations) operation->device_part()->join();
  };
  const std::vector<Tensor> data = {tensor(0, {1, 2, 3, 4}), tensor(1, {10, 20, 30, 40})};
  each([&](int rank) {
    return calls::all_reduce(data[static_cast<std::size_t>(rank)], ReduceOp::kAverage);
  });
  for (const Tensor& average : data) {
    EXPECT_THAT(average.to_vector(), ElementsAre(5.5, 11, 16.5, 22));
  }
  // In place: the part is a view of the whole.
  each([&](int rank) {
    const Tensor& whole = data[static_cast<std::size_t>(rank)];
    const std::size_t begin = static_cast<std::size_t>(rank) * 2;
    const Tensor part = whole.slice(0, {begin, begin + 2});
    return calls::reduce_scatter(whole, part, ReduceOp::kSum, {.rank = rank, .size = kSize});
  });
  EXPECT_THAT(data[0].slice(0, {0, 2}).to_vector(), ElementsAre(11, 22));
  EXPECT_THAT(data[1].slice(0, {2, 4}).to_vector(), ElementsAre(33, 44));
  each([&](int rank) {
    const Tensor& whole = data[static_cast<std::size_t>(rank)];
    const std::size_t begin = static_cast<std::size_t>(rank) * 2;
    return calls::all_gather(whole.slice(0, {begin, begin + 2}), whole,
                             {.rank = rank, .size = kSize});
  });
  for (const Tensor& whole : data) EXPECT_THAT(whole.to_vector(), ElementsAre(11, 22, 33, 44));
}

double sum_of_ones(const Device& device, std::size_t terms) {
  const std::vector<Tensor> from(terms, Tensor::from<float>(device, {1}, std::vector{1.0F}));
  const Tensor into = Tensor::zeros(device, {1}, DType::kF32);
  combine_tensors(ReduceOp::kSum, into, from);
  return into.to_vector().front();
}

TEST(MemoryOps, ADeviceCombinesAsManyAsItSaysAndNoMore) {
  const Device device = Device::create(DeviceKind::kEmulated);
  const std::size_t most = DeviceMemory::of(device, "test")->most_combined();
  EXPECT_GE(most, 8U) << "the ranks of a node";
  EXPECT_EQ(sum_of_ones(device, most), static_cast<double>(most));
  EXPECT_THROW(static_cast<void>(sum_of_ones(device, most + 1)), ConfigError);
}

TEST(MemoryOps, TheHostCombinesAnyNumber) {
  EXPECT_GT(host_memory().most_combined(), 1U << 20);
  EXPECT_EQ(sum_of_ones(Device::cpu(), 1000), 1000.0);
}

TEST(CombineTensors, AddsInOrderOnEveryDeviceThatTheHostPlays) {
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kEmulated}) {
    const Device device = Device::create(kind);
    std::vector<Tensor> terms;
    for (const double first : {1.0, 10.0, 100.0}) {
      terms.push_back(Tensor::from<double>(device, {2}, std::vector{first, 2 * first}));
    }
    combine_tensors(ReduceOp::kSum, terms.front(), terms);
    EXPECT_EQ(terms.front().to_vector(), (std::vector{111.0, 222.0})) << to_string(kind);
    combine_tensors(ReduceOp::kMax, terms[1], std::vector{terms[1], terms[2]});
    EXPECT_EQ(terms[1].to_vector(), (std::vector{100.0, 200.0})) << to_string(kind);
  }
}

class CombinedOnADevice : public test::RandomTest {};

TEST_F(CombinedOnADevice, HasTheHostsBitsWhereverItBegins) {
  const Device emulated = Device::create(DeviceKind::kEmulated);
  const Device cpu = Device::cpu();
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kBF16, DType::kF16}) {
    for (const std::size_t ranks : {random.between(1, 8), random.between(9, 12)}) {
      // A few elements, and more than all threads take in one turn.
      for (const std::size_t count : {random.between(1, 40), random.between(140000, 150000)}) {
        const std::size_t first = random.pick({std::size_t{0}, std::size_t{1}, std::size_t{8}});
        std::vector<Tensor> here;
        std::vector<Tensor> there;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          const Tensor whole = dtype == DType::kI32 ? random.tokens(cpu, {first + count}, 1000)
                                                    : random.tensor(cpu, {first + count}, dtype);
          here.push_back(whole.slice(0, {first, first + count}));
          there.push_back(whole.to(emulated).slice(0, {first, first + count}));
        }
        const ReduceOp op =
            random.pick({ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAverage});
        const std::size_t into = random.between(0, ranks - 1);
        combine_tensors(op, here[into], here);
        combine_tensors(op, there[into], there);
        EXPECT_TRUE(test::all_equal(there[into].to(cpu), here[into]))
            << ranks << " ranks, " << count << " of " << to_string(dtype) << " from " << first;
      }
    }
  }
}

}  // namespace
}  // namespace ultra::comm
