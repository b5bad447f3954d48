#include "chapters/04_zero/shards/whole_weights.hpp"

#include "tests/support/model.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

class WholeWeightsTest : public ultra::test::RandomTest {
 protected:
  [[nodiscard]] nn::Model model(nn::Values values) {
    return {config, device, DType::kF32, seed, factory, nn::StageSpec::whole(config), values};
  }

  [[nodiscard]] std::vector<ParameterGroup> groups(nn::Model& of, std::size_t capacity) const {
    nn::Model* const chunk = &of;
    return groups_by_bucket({&chunk, 1}, of.parameters(), capacity, ranks);
  }

  nn::ModelConfig config = ultra::test::random_model_config(random);
  int ranks = static_cast<int>(random.between(1, 7));
  nn::DenseFactory factory;
};

TEST_F(WholeWeightsTest, AreTheModelsInitialValues) {
  const nn::Model plain = model(nn::Values::kAllocated);
  for (const std::size_t capacity : {0U, 300U, 100'000U}) {
    nn::Model flat = model(nn::Values::kDeferred);
    const WholeWeights weights(groups(flat, capacity));
    for (std::size_t p = 0; p < plain.parameters().size(); ++p) {
      EXPECT_TRUE(
          ultra::test::all_equal(flat.parameters()[p]->value(), plain.parameters()[p]->value()))
          << plain.parameters()[p]->name();
    }
  }
}

TEST_F(WholeWeightsTest, WhatIsWrittenToTheArraysIsWhatTheModelReads) {
  nn::Model flat = model(nn::Values::kDeferred);
  const std::vector<ParameterGroup> made = groups(flat, 300);
  const WholeWeights weights(made);
  ASSERT_EQ(weights.flats().size(), made.size());
  for (std::size_t g = 0; g < made.size(); ++g) {
    EXPECT_EQ(weights.flats()[g].numel(), made[g].layout.padded);
    weights.flats()[g].fill(static_cast<double>(g));
    for (const nn::Parameter* parameter : made[g].parameters) {
      EXPECT_EQ(parameter->value().to_vector().back(), static_cast<double>(g));
    }
  }
}

TEST_F(WholeWeightsTest, TakeTheMemoryOfTheWeightsAndThePadding) {
  nn::Model flat = model(nn::Values::kDeferred);
  EXPECT_EQ(device.memory().current()[MemoryCategory::kParameters], 0U);
  const std::vector<ParameterGroup> made = groups(flat, 300);
  std::size_t bytes = 0;
  for (const ParameterGroup& group : made) bytes += group.layout.padded * sizeof(float);
  const WholeWeights weights(made);
  EXPECT_EQ(device.memory().peak(MemoryCategory::kParameters).bytes, bytes);
}

}  // namespace
}  // namespace ultra::zero
