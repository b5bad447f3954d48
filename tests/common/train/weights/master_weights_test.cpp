// Covers: common/train/gradients/owned_piece.hpp
#include "common/train/weights/master_weights.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/random.hpp"

namespace ultra::train {
namespace {

class MasterWeightsTest : public ultra::test::RandomTest {
 protected:
  nn::Parameter parameter(const nn::ParameterTypes& types) {
    return {{.name = "w",
             .global_shape = {6, 5},
             .shard = {},
             .initializer = {.standard_deviation = 1.0}},
            device,
            types,
            seed};
  }
  static nn::Precision mixed() {
    nn::Precision precision(DType::kBF16);
    precision.optimizer = DType::kF32;
    return precision;
  }
  Tensor flat(const nn::Parameter& parameter, const Range& elements) {
    return parameter.value().view({parameter.count()}).slice(0, elements);
  }
};

// They begin as the weights of a training in f32, of which those of two bytes are the roundings.
TEST_F(MasterWeightsTest, BeginWithTheValuesOfF32) {
  const nn::Parameter half = parameter(mixed());
  const nn::Parameter full = parameter(DType::kF32);
  const MasterWeights masters(std::vector<OwnedPiece>{{&half, {3, 17}}}, mixed());
  EXPECT_EQ(masters.of(0).to_vector(), flat(full, {3, 17}).to_vector());
  EXPECT_EQ(cast(masters.of(0), DType::kBF16).to_vector(), flat(half, {3, 17}).to_vector());
}

TEST_F(MasterWeightsTest, AreBytesOfTheOptimizer) {
  const nn::Parameter half = parameter(mixed());
  const std::size_t before = device.memory().current()[MemoryCategory::kOptimizer];
  const MasterWeights masters(std::vector<OwnedPiece>{{&half, {3, 17}}}, mixed());
  EXPECT_EQ(device.memory().current()[MemoryCategory::kOptimizer], before + 14 * sizeof(float));
}

TEST_F(MasterWeightsTest, ThereAreNoneOfWeightsThatAreWideEnough) {
  const nn::Parameter full = parameter(DType::kF32);
  EXPECT_FALSE(MasterWeights(std::vector<OwnedPiece>{{&full, {0, 30}}}, mixed()).of(0).defined());
  const nn::Parameter half = parameter(DType::kBF16);
  EXPECT_FALSE(
      MasterWeights(std::vector<OwnedPiece>{{&half, {0, 30}}}, DType::kBF16).of(0).defined());
}

TEST_F(MasterWeightsTest, WhatIsWrittenIsReadAndRounded) {
  const nn::Parameter half = parameter(mixed());
  const MasterWeights masters(std::vector<OwnedPiece>{{&half, {0, 30}}}, mixed());
  const Tensor weights = flat(half, {0, 30});
  const Tensor written = random.tensor(device, {30}, DType::kF32);
  masters.write(0, weights, written);
  const Tensor read = Tensor::empty(device, {30}, DType::kF32);
  masters.read(0, weights, read);
  EXPECT_EQ(read.to_vector(), written.to_vector());
  EXPECT_EQ(weights.to_vector(), cast(written, DType::kBF16).to_vector());
}

TEST_F(MasterWeightsTest, WithoutThemTheWeightsAreReadInAWiderType) {
  const nn::Parameter half = parameter(DType::kBF16);
  const MasterWeights masters(std::vector<OwnedPiece>{{&half, {0, 30}}}, DType::kBF16);
  const Tensor read = Tensor::empty(device, {30}, DType::kF32);
  masters.read(0, flat(half, {0, 30}), read);
  EXPECT_EQ(read.to_vector(), flat(half, {0, 30}).to_vector());
}

}  // namespace
}  // namespace ultra::train
