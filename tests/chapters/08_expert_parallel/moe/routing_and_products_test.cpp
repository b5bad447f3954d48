// Affinities of large logits, who gets an expert's places, and products of no rows; that the layers of them
// compute what a loop over tokens computes is moe_layer_test.cpp's.
//
// Covers: chapters/08_expert_parallel/moe/affinities.hpp
// Covers: chapters/08_expert_parallel/moe/capacity.hpp
// Covers: chapters/08_expert_parallel/moe/expert_linears.hpp
// Covers: chapters/08_expert_parallel/balancing/expert_observer.hpp
// Covers: chapters/08_expert_parallel/moe/bias_name.hpp

#include "chapters/08_expert_parallel/balancing/expert_observer.hpp"
#include "chapters/08_expert_parallel/moe/affinities.hpp"
#include "chapters/08_expert_parallel/moe/capacity.hpp"
#include "chapters/08_expert_parallel/moe/expert_linears.hpp"
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

}  // namespace
}  // namespace ultra::expert_parallel
