// Moments in fewer bytes, and the map of int8.
//
// Covers: chapters/10_mixed_precision/optimizer_states/bf16_moments.hpp
// Covers: chapters/10_mixed_precision/optimizer_states/int8_moments.hpp

#include "chapters/10_mixed_precision/optimizer_states/bf16_moments.hpp"
#include "chapters/10_mixed_precision/optimizer_states/int8_moments.hpp"
#include "common/optim/adamw.hpp"
#include "common/optim/optimizer.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

using optim::Signs;
using MakeStore = std::function<std::unique_ptr<optim::StateStore>()>;

class FewByteMoments : public ultra::test::RandomTest {
 protected:
  Tensor f32(const Shape& shape) { return Tensor::empty(device, shape, DType::kF32); }

  /// Moments as training has them: of many sizes, the second positive.
  std::vector<Tensor> any_moments(const Shape& shape) {
    std::vector<Tensor> moments = {f32(shape), f32(shape)};
    for (float& x : moments[0].span<float>()) {
      x = static_cast<float>(random.normal() * std::exp2(random.uniform(-20.0, 0.0)));
    }
    for (float& x : moments[1].span<float>()) {
      x = static_cast<float>(std::exp2(random.uniform(-30.0, -10.0)));
    }
    return moments;
  }

  static std::vector<double> both(std::span<const Tensor> moments) {
    std::vector<double> all = moments[0].to_vector();
    const std::vector<double> second = moments[1].to_vector();
    all.insert(all.end(), second.begin(), second.end());
    return all;
  }

  std::size_t optimizer_bytes() const {
    return device.memory().current()[MemoryCategory::kOptimizer];
  }

  const optim::Rule rule = optim::adamw();
  const std::vector<optim::StateSpecs> specs{2, rule->states(optim::WeightKind::kOther)};
  const std::vector<MakeStore> stores = {
      [] { return bf16_moments(); }, [] { return int8_moments(); }, [] { return int8_moments(7); }};
};

TEST_F(FewByteMoments, BytesAreExact) {
  for (const std::size_t elements : {std::size_t{1}, std::size_t{256}, random.between(2, 3000)}) {
    const Tensor value = f32({elements});
    const std::size_t before = optimizer_bytes();
    const auto bf16 = bf16_moments();
    bf16->allocate({&value, 1}, specs);
    EXPECT_EQ(optimizer_bytes() - before, bf16_moment_bytes(elements));
    const std::size_t with_bf16 = optimizer_bytes();
    const std::size_t block = random.pick({std::size_t{2048}, kMomentBlock, std::size_t{5}});
    const auto int8 = int8_moments(block);
    int8->allocate({&value, 1}, specs);
    EXPECT_EQ(optimizer_bytes() - with_bf16, int8_moment_bytes(elements, block));
  }
  EXPECT_EQ(int8_moment_bytes(2560), 2U * (2560 + 4 * 10));
  EXPECT_EQ(int8_moment_bytes(5, 3), 2U * (8 + 4 * 2));
}

TEST_F(FewByteMoments, WhatIsReadIsWrittenBackInTheSameBits) {
  for (const MakeStore& make : stores) {
    const Shape shape{random.between(1, 40), random.between(1, 40)};
    const Tensor value = f32(shape);
    const auto store = make();
    store->allocate({&value, 1}, specs);
    store->write(0, any_moments(shape));
    const std::vector<Tensor> read = {f32(shape), f32(shape)};
    store->read(0, read);
    const auto resumed = make();
    resumed->allocate({&value, 1}, specs);
    resumed->write(0, read);
    EXPECT_EQ(both(resumed->borrow(0)), both(read));
    store->write(0, read);
    EXPECT_EQ(both(store->borrow(0)), both(read)) << "also where they are";
  }
}

TEST_F(FewByteMoments, EightBitsStayWithinAStepOfTheMap) {
  for (const Signs signs : {Signs::kBoth, Signs::kNonNegative}) {
    const DynamicMap& map = signs == Signs::kBoth ? signed_map() : unsigned_map();
    const std::size_t count = random.between(1, 2000);
    const std::vector<Tensor> moments = any_moments({count});
    const Tensor& x = signs == Signs::kBoth ? moments[0] : moments[1];
    std::vector<std::uint8_t> codes(count);
    std::vector<float> scales((count + 99) / 100);
    quantize_moment(x.span<float>(), signs, 100, codes, scales);
    std::vector<float> back(count);
    dequantize_moment(codes, scales, signs, 100, back);
    for (std::size_t i = 0; i < count; ++i) {
      const auto number = static_cast<double>(x.span<float>()[i]);
      const auto scale = static_cast<double>(scales[i / 100]);
      const auto place = static_cast<std::size_t>(codes[i]);
      const auto at = [&](std::size_t p) { return static_cast<double>(map[p]) * std::abs(scale); };
      const double below = place == 0 ? 0.008 * std::abs(scale) : at(place) - at(place - 1);
      const double above = place == 255 ? 0.0 : at(place + 1) - at(place);
      // Half a step, or what keeps a second moment away from zero.
      const double bound = std::max(below, above) * (signs == Signs::kNonNegative ? 1.0 : 0.5);
      ASSERT_NEAR(back[i], number, bound + 1e-6 * std::abs(number)) << i;
    }
  }
}

TEST_F(FewByteMoments, TheLargestOfABlockIsExactWhicheverItsSign) {
  for (const float largest : {3.7F, -3.7F, 1e-6F}) {
    std::vector<float> x(50);
    for (float& number : x) number = largest * static_cast<float>(random.uniform(-0.9, 0.9));
    x[random.between(0, 49)] = largest;
    std::vector<std::uint8_t> codes(50);
    std::vector<float> scales(1), back(50);
    quantize_moment(x, Signs::kBoth, 50, codes, scales);
    dequantize_moment(codes, scales, Signs::kBoth, 50, back);
    EXPECT_EQ(back[static_cast<std::size_t>(std::ranges::find(x, largest) - x.begin())], largest);
  }
}

TEST_F(FewByteMoments, ASecondMomentStaysAboveZero) {
  const std::vector<float> x = {1.0F, 1e-12F, 0.0F};
  std::vector<std::uint8_t> codes(3);
  std::vector<float> scales(1), back(3);
  quantize_moment(x, Signs::kNonNegative, 3, codes, scales);
  dequantize_moment(codes, scales, Signs::kNonNegative, 3, back);
  EXPECT_EQ(back[0], 1.0F);
  EXPECT_GT(back[1], 0.0F);
  EXPECT_EQ(back[2], 0.0F);
}

TEST_F(FewByteMoments, ABlockThatIsNotFiniteIsNan) {
  std::vector<float> x(20, 1.0F), scales(2), back(20);
  x[12] = std::numeric_limits<float>::infinity();
  std::vector<std::uint8_t> codes(20);
  quantize_moment(x, Signs::kBoth, 10, codes, scales);
  dequantize_moment(codes, scales, Signs::kBoth, 10, back);
  EXPECT_EQ(back[3], 1.0F);
  for (std::size_t i = 10; i < 20; ++i) EXPECT_TRUE(std::isnan(back[i]));
}

TEST_F(FewByteMoments, AdamWStaysNearThatOfF32) {
  // A quadratic bowl with curvatures from 1 to 100: all stores bring it down as f32 does.
  constexpr std::size_t kCount = 600;
  std::vector<float> curvature;
  for (std::size_t i = 0; i < kCount; ++i) {
    curvature.push_back(static_cast<float>(std::pow(100.0, random.uniform(0.0, 1.0))));
  }
  const Tensor start = random.tensor(device, {kCount}, DType::kF32);
  const auto descend = [&](std::unique_ptr<optim::StateStore> store) {
    optim::Optimizer adamw(optim::adamw({.weight_decay = 0.0}), std::move(store));
    const Tensor x = start.clone();
    const Tensor grad = f32({kCount});
    double loss = 0;
    for (int step = 0; step < 150; ++step) {
      loss = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        const float number = x.data<float>()[i];
        grad.data<float>()[i] = curvature[i] * number;
        loss += static_cast<double>(0.5F * curvature[i] * number * number) / kCount;
      }
      const optim::TensorUpdate update{.value = x, .grad = grad, .decay = false};
      adamw.step({&update, 1}, 0.02, 1.0);
    }
    return loss;
  };
  const double reference = descend(optim::states_on_device());
  EXPECT_LT(reference, 0.5);
  for (const MakeStore& make : stores) EXPECT_NEAR(descend(make()), reference, 0.05);
}

class DynamicMaps : public ultra::test::RandomTest {};

TEST_F(DynamicMaps, HaveTheNumbersOfThePublishedMaps) {
  // Of the paper's library: the first and last of each.
  const DynamicMap& both = signed_map();
  EXPECT_FLOAT_EQ(both.front(), -0.99296875F);
  EXPECT_FLOAT_EQ(both[126], -5.5e-7F);
  EXPECT_EQ(both[127], 0.0F);
  EXPECT_FLOAT_EQ(both[128], 5.5e-7F);
  EXPECT_FLOAT_EQ(both[254], 0.99296875F);
  EXPECT_EQ(both.back(), 1.0F);
  const DynamicMap& positive = unsigned_map();
  EXPECT_EQ(positive.front(), 0.0F);
  EXPECT_FLOAT_EQ(positive[1], 3.25e-7F);
  EXPECT_FLOAT_EQ(positive[2], 7.75e-7F);
  EXPECT_FLOAT_EQ(positive[254], 0.996484375F);
  EXPECT_EQ(positive.back(), 1.0F);
}

TEST_F(DynamicMaps, TheNearestOfAllNumbers) {
  for (const DynamicMap* map : {&signed_map(), &unsigned_map()}) {
    const NearestPlaces nearest(*map);
    for (int round = 0; round < 3000; ++round) {
      const double size = std::exp2(random.uniform(-35.0, 0.5));
      const auto x = static_cast<float>(random.pick({-1.0, 1.0}) * size);
      float least = std::numeric_limits<float>::infinity();
      for (const float number : *map) least = std::min(least, std::abs(x - number));
      // Beside a middle, rounded to f32, either neighbour is as near as the other.
      ASSERT_NEAR(std::abs(x - (*map)[nearest(x)]), least, 1e-6F * std::abs(x)) << x;
    }
    for (std::size_t place = 0; place < kMapNumbers; ++place) {
      ASSERT_EQ(nearest((*map)[place]), place);
    }
    EXPECT_EQ((*map)[nearest(0.0F)], 0.0F);
    EXPECT_EQ((*map)[nearest(-0.0F)], 0.0F);
    EXPECT_EQ(nearest(1e30F), kMapNumbers - 1);
    EXPECT_EQ(nearest(-1e30F), 0U);
  }
}

TEST_F(DynamicMaps, EveryCellOfTheTableHasAtMostOneMiddle) {
  for (const DynamicMap* map : {&signed_map(), &unsigned_map()}) {
    const NearestPlaces nearest(*map);
    for (std::size_t place = 0; place + 1 < kMapNumbers; ++place) {
      const float step = (*map)[place + 1] - (*map)[place];
      EXPECT_EQ(nearest((*map)[place] + 0.49F * step), place);
      EXPECT_EQ(nearest((*map)[place] + 0.51F * step), place + 1);
    }
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
