#include "common/ops/weighted_rows.hpp"

#include "common/gpu/streams.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

/// Rows that are taken from a matrix by a list, and added up again.
class WeightedRowsTest : public test::RandomTest {
 protected:
  void SetUp() override {
    if (!has_streams(device.kind())) GTEST_SKIP() << "the CPU's code reads the rows itself";
  }

  std::vector<std::int32_t> drawn_rows(std::size_t count, std::size_t of) {
    std::vector<std::int32_t> drawn;
    for (std::size_t i = 0; i < count; ++i) {
      drawn.push_back(static_cast<std::int32_t>(random.between(0, of - 1)));
    }
    return drawn;
  }

  std::size_t features = random.between(1, 70);
  std::size_t tokens = random.between(1, 20);
  std::size_t rows = random.between(1, 50);
};

TEST_F(WeightedRowsTest, AreTakenByTheirNumbers) {
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    const Tensor x = random.tensor(device, {tokens, features}, dtype);
    const Tensor weights = random.tensor(device.host(), {rows}, dtype);
    const std::vector<std::int32_t> list = drawn_rows(rows, tokens);
    const std::uint64_t waits = device.streams().synchronizations();
    const Tensor plain = take_rows(x, list, {});
    const Tensor weighted = take_rows(x, list, weights);
    EXPECT_EQ(device.streams().synchronizations(), waits) << "nobody waits";
    std::vector<double> expected;
    std::vector<double> times_weight;
    const std::vector<double> numbers = x.to_vector();
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < features; ++i) {
        expected.push_back(numbers[static_cast<std::size_t>(list[row]) * features + i]);
        times_weight.push_back(weights.to_vector()[row] * expected.back());
      }
    }
    EXPECT_EQ(plain.to_vector(), expected);
    EXPECT_TRUE(all_near(weighted, times_weight, rounding_bound(dtype, 1, 25.0)));
  }
}

TEST_F(WeightedRowsTest, AreAddedUpInTheOrderOfTheList) {
  const std::size_t terms = random.between(1, 4);
  const Tensor x = random.tensor(device, {rows, features}, DType::kF64);
  const Tensor weights = random.tensor(device.host(), {rows}, DType::kF64);
  std::vector<std::int32_t> list = drawn_rows(tokens * terms, rows);
  list.back() = -1;
  const std::vector<double> found = sum_rows(x, list, terms, weights).to_vector();
  const std::vector<double> numbers = x.to_vector();
  const std::vector<double> factors = weights.to_vector();
  ASSERT_EQ(found.size(), tokens * features);
  for (std::size_t index = 0; index < found.size(); ++index) {
    double sum = 0;
    for (std::size_t term = 0; term < terms; ++term) {
      const std::int32_t row = list[index / features * terms + term];
      if (row < 0) continue;
      const auto from = static_cast<std::size_t>(row);
      sum += factors[from] * numbers[from * features + index % features];
    }
    EXPECT_NEAR(found[index], sum, 1e-13);
  }
}

TEST_F(WeightedRowsTest, AreMultipliedWithTheRowsTheyBelongTo) {
  const Tensor a = random.tensor(device, {rows, features}, DType::kF64);
  const Tensor b = random.tensor(device, {tokens, features}, DType::kF64);
  const std::vector<std::int32_t> list = drawn_rows(rows, tokens);
  const std::vector<double> found = dot_rows(a, b, list).to_vector();
  const std::vector<double> left = a.to_vector();
  const std::vector<double> right = b.to_vector();
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < features; ++i) {
      sum += left[row * features + i] * right[static_cast<std::size_t>(list[row]) * features + i];
    }
    EXPECT_NEAR(found[row], sum, 1e-12);
  }
}

TEST_F(WeightedRowsTest, OfNoRowsThereIsNothing) {
  const Tensor x = random.tensor(device, {tokens, features}, DType::kF32);
  EXPECT_EQ(take_rows(x, {}, {}).shape(), (Shape{0, features}));
  EXPECT_EQ(dot_rows(take_rows(x, {}, {}), x, {}).numel(), 0U);
}

TEST(WeightedRowsOnTheCpu, AreRefused) {
  const Tensor x = Tensor::zeros(Device::cpu(), {1, 2}, DType::kF32);
  const std::vector<std::int32_t> first = {0};
  EXPECT_THROW(static_cast<void>(take_rows(x, first, {})), InternalError);
  EXPECT_THROW(static_cast<void>(sum_rows(x, first, 1, {})), InternalError);
  EXPECT_THROW(static_cast<void>(dot_rows(x, x, first)), InternalError);
}

}  // namespace
}  // namespace ultra::ops
