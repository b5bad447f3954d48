// Operations on rows.
// Covers: common/ops/weighted_rows.hpp

#include "common/ops/embedding.hpp"

#include "common/gpu/streams.hpp"
#include "common/ops/weighted_rows.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

class EmbeddingTest : public test::RandomTest {};

TEST_F(EmbeddingTest, LooksUpTheRowOfEachToken) {
  for (const DType dtype : test::kFloatDTypes) {
    const std::size_t vocab = random.between(1, 20);
    const std::size_t hidden = random.between(1, 17);
    const Tensor table = random.tensor(device, {vocab, hidden}, dtype);
    const Tensor tokens =
        random.tokens(device, {random.between(0, 3), random.between(1, 7)}, vocab);
    const Tensor y = embedding(table, tokens);
    EXPECT_EQ(y.shape(), (Shape{tokens.size(0), tokens.size(1), hidden}));
    const std::vector<double> rows = table.to_vector();
    std::vector<double> expected;
    for (const double token : tokens.to_vector()) {
      for (std::size_t i = 0; i < hidden; ++i) {
        expected.push_back(rows[static_cast<std::size_t>(token) * hidden + i]);
      }
    }
    EXPECT_TRUE(test::all_equal(y, expected));
  }
}

// Small integers add up exactly, in any order and in either dtype.
TEST_F(EmbeddingTest, BackwardAddsTheGradientsOfEachTokensPlaces) {
  for (const DType dtype : test::kFloatDTypes) {
    const std::size_t vocab = random.between(1, 9);
    const std::size_t hidden = random.between(1, 11);
    const Tensor tokens = random.tokens(device, {3, 5}, vocab);
    const std::vector<double> ids = tokens.to_vector();
    const Tensor d_y = random.tokens(device, {3, 5, hidden}, 100);
    const std::vector<double> added = d_y.to_vector();
    const Tensor d_y_real = Tensor::from<double>(device, d_y.shape(), d_y.to_vector()).to(dtype);
    const Tensor d_table = test::filled(device, {vocab, hidden}, dtype, 7.0);
    embedding_backward_into(d_table, d_y_real, tokens);
    std::vector<double> expected(vocab * hidden, 7.0);
    for (std::size_t t = 0; t < tokens.numel(); ++t) {
      const auto row = static_cast<std::size_t>(ids[t]);
      for (std::size_t i = 0; i < hidden; ++i) {
        expected[row * hidden + i] += added[t * hidden + i];
      }
    }
    EXPECT_TRUE(test::all_equal(d_table, expected));
  }
}

TEST_F(EmbeddingTest, TokensOutsideOfTheVocabularyAreNamed) {
  const Tensor table = Tensor::zeros(device, {5, 2}, DType::kF32);
  const Tensor tokens = Tensor::zeros(device, {1, 3}, DType::kI32);
  for (const std::int32_t bad : {5, -1}) {
    tokens.slice(1, {2, 3}).fill(bad);
    if (has_streams(device.kind())) {  // nobody waits to look: a row of zeros
      EXPECT_EQ(test::largest_magnitude(embedding(table, tokens).to_vector()), 0.0);
      continue;
    }
    EXPECT_THAT(message_of<ShapeError>([&] { return embedding(table, tokens); }),
                HasSubstr("token " + std::to_string(bad) +
                          " at index 2 is outside of the vocabulary [0, 5)"));
    const Tensor d_y = Tensor::zeros(device, {1, 3, 2}, DType::kF32);
    EXPECT_THAT(message_of<ShapeError>([&] { embedding_backward_into(table, d_y, tokens); }),
                HasSubstr("vocabulary"));
  }
}

TEST_F(EmbeddingTest, ShapesThatDoNotFitAreErrors) {
  const Tensor table = Tensor::zeros(device, {5, 2}, DType::kF32);
  const Tensor tokens = Tensor::zeros(device, {1, 3}, DType::kI32);
  EXPECT_THROW(static_cast<void>(embedding(table, table)), ShapeError);
  EXPECT_THROW(static_cast<void>(embedding(table, tokens.view({3}))), ShapeError);
  EXPECT_THROW(static_cast<void>(embedding(table, Tensor())), ShapeError);
  EXPECT_THAT(
      message_of<ShapeError>([&] {
        embedding_backward_into(table, Tensor::zeros(device, {1, 3, 4}, DType::kF32), tokens);
      }),
      HasSubstr("expected [1, 3, 2] of f32, found [1, 3, 4]"));
}

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

}  // namespace
}  // namespace ultra::ops
