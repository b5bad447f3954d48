#include "common/ops/embedding.hpp"

#include "common/ops/elementwise.hpp"
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

// Each token is in one part: the parts' rows are those of the whole table, everything else is zero.
TEST_F(EmbeddingTest, PartsOfATableAddUpToTheWhole) {
  for (const DType dtype : test::kFloatDTypes) {
    const std::size_t vocab = random.between(1, 20);
    const Tensor table = random.tensor(device, {vocab, random.between(1, 9)}, dtype);
    const Tensor tokens = random.tokens(device, {2, 7}, vocab);
    const std::vector<double> ids = tokens.to_vector();
    const std::size_t cut = random.between(0, vocab);
    const Tensor sum = embedding_part(table.slice(0, {0, cut}), tokens, 0);
    const Tensor rest = embedding_part(table.slice(0, {cut, vocab}), tokens, cut);
    for (std::size_t t = 0; t < tokens.numel(); ++t) {
      const bool in_first = static_cast<std::size_t>(ids[t]) < cut;
      const Tensor& zeros = in_first ? rest : sum;
      const Tensor row = zeros.view({tokens.numel(), table.size(1)}).slice(0, {t, t + 1});
      EXPECT_TRUE(test::all_equal(row, std::vector<double>(table.size(1), 0.0)));
    }
    ops::add_into(sum, rest);
    EXPECT_TRUE(test::all_equal(sum, embedding(table, tokens)));
  }
}

TEST_F(EmbeddingTest, PartsOfATableGetTheGradientsOfTheirTokens) {
  for (const DType dtype : test::kFloatDTypes) {
    const std::size_t vocab = random.between(1, 9);
    const Tensor tokens = random.tokens(device, {3, 5}, vocab);
    const Tensor d_y = random.tensor(device, {3, 5, random.between(1, 11)}, dtype);
    const Tensor whole = Tensor::zeros(device, {vocab, d_y.size(2)}, dtype);
    embedding_backward_into(whole, d_y, tokens);
    const std::size_t cut = random.between(0, vocab);
    for (const Range part : {Range{0, cut}, Range{cut, vocab}}) {
      const Tensor d_part = Tensor::zeros(device, {part.size(), d_y.size(2)}, dtype);
      embedding_part_backward_into(d_part, d_y, tokens, part.begin);
      EXPECT_TRUE(test::all_equal(d_part, whole.slice(0, part)));
    }
  }
}

}  // namespace
}  // namespace ultra::ops
