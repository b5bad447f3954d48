// Covers: common/ops/backend/cpu/half/stored_numbers.hpp
//
// An operation on bf16 or f16 is the operation on the same numbers in f32, whose result is rounded.
#include "common/ops/backend/cpu/half/half_ops.hpp"

#include "common/ops/adamw.hpp"
#include "common/ops/cross_entropy.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/embedding.hpp"
#include "common/ops/rms_norm.hpp"
#include "common/ops/rope.hpp"
#include "common/ops/swiglu.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

using test::all_equal;

Tensor wide(const Tensor& x) { return x.to(DType::kF32); }

/// `x` in f32, rounded, is `actual`: to the bit on a CPU. A device may have another kernel for f32,
/// whose sums differ in their last bits: there it is within half a step of `x` and of these bits.
::testing::AssertionResult is_rounded(const Tensor& actual, const Tensor& x) {
  if (actual.device().kind() == DeviceKind::kCpu) return all_equal(actual, x.to(actual.dtype()));
  const std::vector<double> expected = x.to_vector();
  const double last_bits = rounding_bound(DType::kF32, 16, test::largest_magnitude(expected));
  std::vector<double> tolerances;
  for (const double value : expected) {
    tolerances.push_back(rounding_bound(actual.dtype(), 0.5, std::abs(value)) + last_bits);
  }
  return all_near(actual, expected, tolerances);
}

class HalfOpsTest : public test::RandomTest, public ::testing::WithParamInterface<DType> {
 protected:
  [[nodiscard]] Tensor draw(const Shape& shape) { return random.tensor(device, shape, GetParam()); }
  /// Of one tile, of several, or of a ragged number.
  [[nodiscard]] Shape any_shape() {
    return {random.between(1, 4),
            random.pick({std::size_t{1}, random.between(1, 300), random.between(1000, 1100)})};
  }
};

INSTANTIATE_TEST_SUITE_P(Types, HalfOpsTest, ::testing::ValuesIn(test::kHalfDTypes),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST_P(HalfOpsTest, SumsAreRoundedOnce) {
  const Shape shape = any_shape();
  const Tensor a = draw(shape);
  const Tensor b = draw(shape);
  EXPECT_TRUE(is_rounded(add(a, b), add(wide(a), wide(b))));
  const Tensor scaled = a.clone();
  scale_into(scaled, 0.3);
  const Tensor expected = wide(a);
  scale_into(expected, 0.3);
  EXPECT_TRUE(is_rounded(scaled, expected));
}

TEST_P(HalfOpsTest, AddsToAnotherType) {
  const Shape shape = any_shape();
  const Tensor part = draw(shape);
  const Tensor sum = random.tensor(device, shape, DType::kF32);
  const Tensor expected = add(sum, wide(part));
  write_or_add(sum, part, Write::kAccumulate);
  EXPECT_TRUE(all_equal(sum, expected));
  write_or_add(part, sum, Write::kAccumulate);
  const Tensor copy = Tensor::empty(device, shape, GetParam());
  write_or_add(copy, sum, Write::kOverwrite);
  EXPECT_TRUE(is_rounded(copy, sum));
}

TEST_P(HalfOpsTest, SquaresAreSummedInF64) {
  const Tensor x = draw(any_shape());
  double expected = 0;
  for (const double value : x.to_vector()) expected += value * value;
  EXPECT_NEAR(sum_of_squares(x), expected,
              rounding_bound(DType::kF64, count_of(x.numel()), expected));
}

TEST_P(HalfOpsTest, SwigluAndItsGradientsAreRoundedOnce) {
  const Shape shape = any_shape();
  const Tensor gate = draw(shape);
  const Tensor up = draw(shape);
  const Tensor d = draw(shape);
  // Another number of elements per loop may fuse other multiplications and additions.
  const auto near = [](const Tensor& actual, const Tensor& expected) {
    return all_near(
        actual, expected.to_vector(),
        rounding_bound(actual.dtype(), 0.51, test::largest_magnitude(expected.to_vector())));
  };
  EXPECT_TRUE(near(swiglu(gate, up), swiglu(wide(gate), wide(up))));
  const auto [d_gate, d_up] = swiglu_backward(d, gate, up);
  const auto [wide_d_gate, wide_d_up] = swiglu_backward(wide(d), wide(gate), wide(up));
  EXPECT_TRUE(near(d_gate, wide_d_gate));
  EXPECT_TRUE(near(d_up, wide_d_up));
}

TEST_P(HalfOpsTest, RmsNormKeepsItsStatisticsInF32) {
  const Shape shape = any_shape();
  const Tensor x = draw(shape);
  const Tensor d_y = draw(shape);
  const DType of_weight = random.pick({GetParam(), DType::kF32});
  const Tensor weight = random.tensor(device, {shape[1]}, of_weight);
  const RmsNormResult actual = rms_norm(x, weight, 1e-5);
  const RmsNormResult expected = rms_norm(wide(x), wide(weight), 1e-5);
  EXPECT_TRUE(is_rounded(actual.reciprocal_rms, expected.reciprocal_rms));
  EXPECT_TRUE(is_rounded(actual.y, expected.y));

  const Write write = random.pick({Write::kOverwrite, Write::kAccumulate});
  const Tensor wide_d_weight = random.tensor(device, {shape[1]}, DType::kF32);
  const Tensor d_weight = wide_d_weight.clone();
  const Tensor d_x = rms_norm_backward(d_y, x, weight, actual.reciprocal_rms, d_weight, write);
  EXPECT_TRUE(is_rounded(d_x, rms_norm_backward(wide(d_y), wide(x), wide(weight),
                                                actual.reciprocal_rms, wide_d_weight, write)));
  EXPECT_TRUE(is_rounded(d_weight, wide_d_weight));
}

TEST_P(HalfOpsTest, WeightGradientsOfTwoBytesAreRoundedWhenAllRowsAreIn) {
  // 1 and 512 times 2^-10: added one by one to a bf16 number, none of these would be seen.
  const std::size_t rows = 513;
  const Tensor x = test::filled(device, {rows, 1}, GetParam(), 1.0);
  const Tensor d_y = test::filled(device, {rows, 1}, GetParam(), 0x1p-10);
  d_y.slice(0, {0, 1}).fill(1.0);
  const Tensor weight = test::filled(device, {1}, GetParam(), 1.0);
  const Tensor ones = test::filled(device, {rows}, DType::kF32, 1.0);
  const Tensor d_weight = Tensor::empty(device, {1}, GetParam());
  static_cast<void>(rms_norm_backward(d_y, x, weight, ones, d_weight, Write::kOverwrite));
  EXPECT_THAT(d_weight.to_vector(), ElementsAre(1.5));
}

TEST_P(HalfOpsTest, RopeTurnsByATableOfF32) {
  const std::size_t head_dim = 2 * random.between(1, 20);
  const std::size_t seq = random.between(1, 9);
  const RopeTable table(device, DType::kF32, head_dim, 32, 10000.0);
  const Tensor x = draw({random.between(1, 3), seq, random.between(1, 4), head_dim});
  std::vector<std::int32_t> positions(seq);
  std::iota(positions.begin(), positions.end(), 3);
  const Tensor expected = wide(x);
  rope_into(expected, table, positions, Rotation::kBackward);
  rope_into(x, table, positions, Rotation::kBackward);
  EXPECT_TRUE(is_rounded(x, expected));
}

TEST_P(HalfOpsTest, CrossEntropyComputesInF32) {
  const Shape shape = any_shape();
  const Tensor logits = draw(shape);
  const Tensor targets = random.tokens(device, {shape[0]}, shape[1]);
  if (shape[0] > 1) targets.slice(0, {1, 2}).fill(kNoTarget);
  const Tensor expected = wide(logits);
  const double wide_loss = cross_entropy_into_gradient(expected, targets, 7.0);
  EXPECT_NEAR(cross_entropy_into_gradient(logits, targets, 7.0), wide_loss,
              rounding_bound(DType::kF64, 8, wide_loss));
  EXPECT_TRUE(is_rounded(logits, expected));
}

TEST_P(HalfOpsTest, EmbeddingCopiesRowsAndSumsTheirGradientsInF32) {
  const std::size_t hidden = random.between(1, 1100);
  const Tensor table = draw({5, hidden});
  const Tensor tokens = random.tokens(device, {2, 300}, 5);
  EXPECT_TRUE(is_rounded(embedding(table, tokens), embedding(wide(table), tokens)));
  const Tensor d_output = draw({2, 300, hidden});
  const Tensor sums = Tensor::zeros(device, {5, hidden}, DType::kF32);
  embedding_backward_into(sums, wide(d_output), tokens);
  for (const DType dtype : {GetParam(), DType::kF32}) {
    const Tensor d_table = Tensor::zeros(device, {5, hidden}, dtype);
    embedding_backward_into(d_table, d_output, tokens);
    EXPECT_TRUE(is_rounded(d_table, sums));
  }
}

TEST_P(HalfOpsTest, AdamwTakesGradientsOfTwoBytes) {
  const Shape shape = any_shape();
  const Tensor grad = draw(shape);
  const Tensor value = random.tensor(device, shape, DType::kF32);
  const Tensor first = random.tensor(device, shape, DType::kF32, 0.1);
  const Tensor second = test::filled(device, shape, DType::kF32, 0.3);
  const std::vector<Tensor> expected = {value.clone(), first.clone(), second.clone()};
  const AdamWStep step{.gradient_scale = 0.5, .step = 3};
  const auto bound = rounding_bound(DType::kF32, 8, 5.0);
  adamw_into(expected[0], wide(grad), expected[1], expected[2], step);
  adamw_into(value, grad, first, second, step);
  EXPECT_TRUE(all_near(value, expected[0], bound));
  EXPECT_TRUE(all_near(first, expected[1], bound));
  EXPECT_TRUE(all_near(second, expected[2], bound));
}

TEST_P(HalfOpsTest, InfinityAndNanPassThrough) {
  const Tensor x = test::filled(device, {3}, GetParam(), 1.0);
  x.slice(0, {1, 2}).fill(INFINITY);
  x.slice(0, {2, 3}).fill(NAN);
  const std::vector<double> sum = add(x, x).to_vector();
  EXPECT_EQ(sum[0], 2.0);
  EXPECT_EQ(sum[1], INFINITY);
  EXPECT_TRUE(std::isnan(sum[2]));
  EXPECT_TRUE(std::isnan(sum_of_squares(x)));
  EXPECT_EQ(sum_of_squares(x.slice(0, {0, 2})), INFINITY);
}

TEST_P(HalfOpsTest, TypesThatDoNotMixAreRefused) {
  const Tensor half = Tensor::zeros(device, {4}, GetParam());
  const Tensor f64 = Tensor::zeros(device, {4}, DType::kF64);
  const Tensor f32 = Tensor::zeros(device, {4}, DType::kF32);
  const std::string name(to_string(GetParam()));
  EXPECT_THAT(message_of<ShapeError>([&] { add_into(half, f64); }),
              HasSubstr("expected [4] of " + name + ", found [4] of f64"));
  EXPECT_THAT(message_of<ShapeError>([&] { add_into(f64, half); }), HasSubstr("term of add_into"));
  EXPECT_THROW(static_cast<void>(add(half, f32)), ShapeError);
  EXPECT_THROW(static_cast<void>(swiglu(half, f32)), ShapeError);
  EXPECT_THROW(static_cast<void>(rms_norm(f32.view({1, 4}), half, 1e-5)), ShapeError);
  EXPECT_THROW(adamw_into(f64, half, f64, f64, {}), ShapeError);
  const RopeTable f64_table(device, DType::kF64, 4, 8, 10000.0);
  const std::vector<std::int32_t> first = {0};
  EXPECT_THROW(rope_into(half.view({1, 1, 1, 4}), f64_table, first, Rotation::kForward),
               ShapeError);
}

}  // namespace
}  // namespace ultra::ops
