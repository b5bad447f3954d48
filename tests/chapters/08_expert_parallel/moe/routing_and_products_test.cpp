// Affinities of large logits, who gets an expert's places, and products of no rows; that the layers of them
// compute what a loop over tokens computes is moe_layer_test.cpp's.
//
// Covers: chapters/08_expert_parallel/moe/affinities.hpp
// Covers: chapters/08_expert_parallel/moe/capacity.hpp
// Covers: chapters/08_expert_parallel/moe/expert_linears.hpp
// Covers: chapters/08_expert_parallel/balancing/expert_observer.hpp
// Covers: chapters/08_expert_parallel/moe/bias_name.hpp

#include "chapters/08_expert_parallel/balancing/expert_observer.hpp"
#include "chapters/08_expert_parallel/combine_weights.hpp"
#include "chapters/08_expert_parallel/device/expert_rows.hpp"
#include "chapters/08_expert_parallel/moe/affinities.hpp"
#include "chapters/08_expert_parallel/moe/capacity.hpp"
#include "chapters/08_expert_parallel/moe/expert_linears.hpp"
#include "common/gpu/streams.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::expert_parallel {
namespace {

using ops::Transpose;

class Affinities : public ultra::test::RandomTest {};

TEST_F(Affinities, LargeLogitsDoNotOverflow) {
  const std::vector<float> values = {500.0F, 499.0F, -500.0F};
  const Tensor logits = Tensor::from<float>(device, {1, 3}, values);
  for (const RouterKind kind : {RouterKind::kSoftmax, RouterKind::kSigmoid}) {
    for (const double affinity : affinities_of(logits, kind).to_vector()) {
      EXPECT_TRUE(affinity >= 0 && affinity <= 1) << affinity;
    }
  }
}

constexpr std::int32_t kNo = kDropped;

class Capacity : public ultra::test::RandomTest {};

// 4096 tokens for 8 experts with a factor of 1.25: the example of the Switch transformers' paper.
TEST_F(Capacity, IsTheShareOfAnExpertTimesTheFactor) {
  EXPECT_EQ(capacity_of(1.25, 4096, {.num_experts = 8, .top_k = 1}), 640U);
  EXPECT_EQ(capacity_of(1.0, 4096, {.num_experts = 8, .top_k = 2}), 1024U) << "GShard: 2 T / E";
  EXPECT_EQ(capacity_of(1.0, 10, {.num_experts = 3, .top_k = 1}), 4U) << "rounded up";
  EXPECT_EQ(capacity_of(1.1, 10, {.num_experts = 1, .top_k = 1}), 11U) << "11.000000000000002";
  EXPECT_EQ(capacity_of(1e-6, 10, {.num_experts = 2, .top_k = 1}), 1U) << "never none";
}

TEST_F(Capacity, FirstChoicesComeBeforeSecondOnes) {
  // Three tokens, two choices each, of two experts with one place.
  std::vector<std::int32_t> choices = {0, 1, 1, 0, 1, 0};
  const std::vector<std::size_t> order = {0, 1, 2};
  keep_places(choices, 2, order, 2, 1);
  EXPECT_EQ(choices, (std::vector<std::int32_t>{0, kNo, 1, kNo, kNo, kNo}));
  choices = {0, 1, 0, kNo, kNo, 1};
  keep_places(choices, 2, order, 2, 1);
  EXPECT_EQ(choices, (std::vector<std::int32_t>{0, 1, kNo, kNo, kNo, kNo}))
      << "what goes nowhere takes no place";
}

class GroupedMatmul : public ultra::test::RandomTest {};

TEST_F(GroupedMatmul, NoRowsAtAllAndRowsThatDoNotAddUp) {
  const std::vector<Tensor> matrices = {random.tensor(device, {3, 2}, DType::kF32)};
  const Tensor none = Tensor::empty(device, {0, 2}, DType::kF32);
  EXPECT_EQ(grouped_matmul(none, std::vector<std::size_t>{0}, matrices, Transpose::kYes).shape(),
            (Shape{0, 3}));
  const Tensor two = random.tensor(device, {2, 2}, DType::kF32);
  const std::string message = ultra::test::message_of<ShapeError>([&] {
    static_cast<void>(grouped_matmul(two, std::vector<std::size_t>{3}, matrices, Transpose::kYes));
  });
  EXPECT_NE(message.find("1 groups of 3 rows for 1 matrices and 2 rows"), std::string::npos)
      << message;
}

// How biases move.

TEST(MoveBiases, DownForTheBusyAndUpForTheIdle) {
  const std::vector<double> before = {0.5, 0.0, -0.25, 1.0};
  const Tensor biases = Tensor::from<double>(Device::cpu(), {4}, before);
  move_biases(biases, std::vector<double>{8, 4, 4, 0}, 0.125);
  EXPECT_TRUE(ultra::test::all_equal(biases, std::vector<double>{0.375, 0.0, -0.25, 1.125}));
}

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
