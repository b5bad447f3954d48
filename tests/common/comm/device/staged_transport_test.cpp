// Two ranks' transports, which are told nothing of devices, in the hands of one thread.
//
// Covers: common/comm/device/staging.hpp, common/comm/device/staged_transport.hpp
// Covers: common/comm/device/polling.hpp
// Covers: common/comm/device/memory_ops.hpp

#include "common/comm/device/staged_transport.hpp"

#include "common/comm/backend/threads/thread_world.hpp"
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
