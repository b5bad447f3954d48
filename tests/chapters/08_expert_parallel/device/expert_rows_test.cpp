#include "chapters/08_expert_parallel/device/expert_rows.hpp"

#include "chapters/08_expert_parallel/combine_weights.hpp"
#include "common/gpu/streams.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::expert_parallel {
namespace {

/// What a router has decided on the host, and the tokens on a device with streams and on the CPU.
class ExpertRows : public ultra::test::RandomTest {
 protected:
  static DeviceKind kind() {
    const DeviceKind of_tests = test::device_kind_of_tests();
    return has_streams(of_tests) ? of_tests : DeviceKind::kEmulated;
  }

  void SetUp() override {
    affinities = random.tensor(cpu, {tokens, experts}, DType::kF64);
    for (double& affinity : affinities.span<double>()) affinity = std::abs(affinity) + 0.1;
    routing = top_k_routing(affinities, {}, top_k);
    const Tensor destinations = routing.experts.clone();
    for (std::int32_t& expert : destinations.span<std::int32_t>()) {
      if (random.between(0, 3) == 0) expert = kDropped;
    }
    order = expert_order(destinations, experts);
    x = random.tensor(cpu, {tokens, features}, DType::kF64);
    rows = random.tensor(cpu, {order.rows(), features}, DType::kF64);
  }

  Device cpu = Device::cpu();
  Device there = Device::create(kind());
  std::size_t tokens = random.between(1, 30);
  std::size_t experts = random.between(2, 6);
  std::size_t top_k = random.between(1, 2);
  std::size_t features = random.between(1, 40);
  Tensor affinities, x, rows;
  Routing routing;
  ExpertOrder order;
};

TEST_F(ExpertRows, ArePermutedAsOnTheCpuAndNobodyWaits) {
  const Tensor x_there = x.to(there);
  const Tensor rows_there = rows.to(there);
  for (const Tensor& weights : {Tensor(), routing.weights}) {
    const std::uint64_t waits = there.streams().synchronizations();
    const Tensor permuted = to_expert_order_on_device(x_there, weights, order);
    const Tensor back = from_expert_order_on_device(rows_there, weights, order);
    EXPECT_EQ(there.streams().synchronizations(), waits);
    const Tensor to = to_expert_order(x, weights, order);
    const Tensor from = from_expert_order(rows, weights, order);
    EXPECT_EQ(permuted.shape(), to.shape());
    EXPECT_TRUE(all_near(permuted, to.to_vector(), 1e-14));
    EXPECT_EQ(back.shape(), from.shape());
    EXPECT_TRUE(all_near(back, from.to_vector(), 1e-14));
  }
}

TEST_F(ExpertRows, GiveTheAffinitiesTheGradientsOfTheCpuForOneWait) {
  const Tensor d_y = x.to(there);
  const Tensor outputs = rows.to(there);
  const std::uint64_t waits = there.streams().synchronizations();
  const Tensor found = combine_weights_backward_on_device(d_y, outputs, order, routing, affinities);
  EXPECT_LE(there.streams().synchronizations(), waits + 1);
  EXPECT_EQ(found.device().kind(), DeviceKind::kCpu);
  const Tensor expected = combine_weights_backward(x, rows, order, routing, affinities);
  EXPECT_TRUE(all_near(found, expected.to_vector(), 1e-11));
}

}  // namespace
}  // namespace ultra::expert_parallel
