#include "common/train/token_plan.hpp"

#include "common/ops/cross_entropy.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::train {
namespace {

class TokenPlanTest : public test::RandomTest {
 protected:
  static data::Dataset counting_text() {
    std::vector<std::uint8_t> bytes(256);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
    return {std::move(bytes), "counting"};
  }

  data::Dataset text = counting_text();
  data::Sampler sampler{text, 5, 4, seed};
};

TEST_F(TokenPlanTest, TokensOfTheirPositionsPassAndPaddingHasNoTarget) {
  const TokenPlan plan{.positions = {1, 4, 5, 7}, .padded_len = 8};
  const data::Batch whole = sampler.batch(device, 2, {1, 3});
  const data::Batch part = plan.part_of(whole);
  ASSERT_EQ(part.tokens.shape(), (Shape{2, 4}));
  const auto tokens = whole.tokens.to_vector();
  const auto targets = whole.targets.to_vector();
  EXPECT_TRUE(
      test::all_equal(part.tokens, {tokens[1], tokens[4], 0, 0, tokens[6], tokens[9], 0, 0}));
  const double none = ops::kNoTarget;
  EXPECT_TRUE(test::all_equal(
      part.targets, {targets[1], targets[4], none, none, targets[6], targets[9], none, none}));
}

TEST_F(TokenPlanTest, DocumentsAreThoseOfTheSequencesNumbersInEveryShare) {
  const TokenPlan plan{.documents = Documents(seed, 2)};
  const auto all = plan.places(sampler, 3, {0, 4});
  const auto shared = plan.places(sampler.share({2, 4}), 3, {1, 2});
  ASSERT_EQ(all->document_begins.size(), 20U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(shared->begins(0, {0, 5})[i], all->begins(3, {0, 5})[i]) << i;
  }
}

TEST_F(TokenPlanTest, PaddingIsADocumentOfItsOwn) {
  const TokenPlan plan{.positions = {0, 7}, .padded_len = 8, .documents = Documents(seed, 1000000)};
  const auto places = plan.places(sampler, 0, {0, 1});
  EXPECT_EQ(places->document_begins, (std::vector<std::int32_t>{0, 0, 0, 0, 0, 5, 5, 5}));
}

/// A micro-batch of one sequence.
data::Batch batch_of(const std::vector<std::int32_t>& tokens,
                     const std::vector<std::int32_t>& targets) {
  const Shape shape{1, tokens.size()};
  return {.tokens = Tensor::from<std::int32_t>(Device::cpu(), shape, tokens),
          .targets = Tensor::from<std::int32_t>(Device::cpu(), shape, targets)};
}

constexpr double kNone = ops::kNoTarget;

TEST_F(TokenPlanTest, ATokenWithoutALossHasNoneAsTheTokenAfterNextEither) {
  const data::Batch next =
      TokenPlan::next_of(batch_of({11, 12, 13, 14}, {12, -1, 14, -1}), nullptr);
  EXPECT_TRUE(test::all_equal(next.tokens, {12.0, 13.0, 14.0, 0.0}));
  EXPECT_TRUE(test::all_equal(next.targets, {kNone, 14.0, kNone, kNone}));
}

class DocumentsTest : public test::RandomTest {
 protected:
  [[nodiscard]] std::vector<std::int32_t> begins(const Documents& documents, std::size_t number,
                                                 std::size_t seq_len) const {
    std::vector<std::int32_t> result(seq_len, -1);
    documents.begins_into(number, result);
    return result;
  }
};

TEST_F(DocumentsTest, EachTokenKnowsWhereItsDocumentBegins) {
  const std::vector<std::int32_t> all = begins(Documents(seed, 5), random.between(0, 99), 200);
  EXPECT_EQ(all[0], 0);
  for (std::size_t i = 1; i < all.size(); ++i) {
    EXPECT_TRUE(all[i] == all[i - 1] || all[i] == static_cast<std::int32_t>(i)) << i;
  }
}

TEST_F(DocumentsTest, LengthsHaveTheMean) {
  const std::size_t mean = random.between(4, 40);
  std::size_t documents = 0;
  const std::size_t sequences = 200;
  const std::size_t seq_len = 1000;
  for (std::size_t number = 0; number < sequences; ++number) {
    const std::vector<std::int32_t> all = begins(Documents(seed, mean), number, seq_len);
    for (std::size_t i = 1; i < seq_len; ++i) documents += all[i] == static_cast<std::int32_t>(i);
  }
  const double trials = static_cast<double>(sequences * (seq_len - 1));
  const double chance = 1.0 / static_cast<double>(mean);
  // Six standard deviations of a binomial number: one run in 10^9 fails by chance.
  EXPECT_NEAR(static_cast<double>(documents), trials * chance,
              6 * std::sqrt(trials * chance * (1 - chance)));
}

TEST_F(DocumentsTest, DependOnSeedAndNumberOnly) {
  const Documents documents(seed, 7);
  EXPECT_EQ(begins(documents, 3, 100), begins(Documents(seed, 7), 3, 100));
  EXPECT_NE(begins(documents, 3, 100), begins(documents, 4, 100));
  EXPECT_NE(begins(documents, 3, 100), begins(Documents(seed + 1, 7), 3, 100));
}

}  // namespace
}  // namespace ultra::train
