// Contract of exercise 05.3: loss and gradient of the whole logits from parts of them, against
// loops in extended precision, closed forms and finite differences; and how little travels.
#include "chapters/05_tensor_sequence_parallel/vocabulary_parallel.hpp"

#include "common/ops/cross_entropy.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/vocabulary_case.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/finite_difference.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::as_size;
using test::Outcome;
using test::run;
using test::Truth;
using Case = test::VocabularyCase;
using Data = test::WholeLogits;

class VocabularyParallelTest : public ultra::test::RandomTest {
 protected:
  Case draw(int ranks, DType dtype) {
    Case c{.ranks = ranks, .dtype = dtype};
    c.vocab = random.between(1, as_size(4 * ranks + 3));
    c.more_padding = random.between(0, 2);
    c.batch = random.between(1, 3);
    c.seq = random.between(1, 4);
    c.normalizer = random.uniform(2.0, 20.0);
    c.padding = random.uniform(-1.0, 3.0);
    return c;
  }
  Data data(const Case& c, double scale = 1.0) {
    return {.logits = random.tensor(device, {c.batch, c.seq, c.vocab}, c.dtype, scale),
            .targets = random.tokens(device, {c.batch, c.seq}, c.vocab)};
  }
  /// Calls check(case) for any number of ranks and both dtypes, until one fails.
  template <class Check>
  void for_cases(const Check& check) {
    test::for_ranks({1, 2, 3, 4, 5, 8}, [&](int ranks, DType dtype) { check(draw(ranks, dtype)); });
  }
  static void expect_truth(const Case& c, const Data& whole) {
    SCOPED_TRACE(fmt::format("on {} ranks: {}", c.ranks, c.str()));
    const std::vector<Outcome> outcomes = run(c, whole);
    if (HasFailure()) return;
    const Truth truth(c, whole);
    truth.expect_losses(outcomes);
    truth.expect_gradients(outcomes);
  }
};

TEST_F(VocabularyParallelTest, PartsAreTheWholeSoftmaxWhateverStandsInThePadding) {
  for_cases([&](Case c) {
    // Two ranks both have columns, and none's are all of the sum: hints tell mistakes apart.
    Case larger = c;
    larger.vocab = std::max(c.vocab, as_size(c.ranks));
    expect_truth(larger, data(larger, random.pick({0.1, 1.0})));
    c.more_padding = random.between(1, 3);
    c.padding = random.pick({std::nan(""), std::numeric_limits<double>::infinity(), 1e30});
    expect_truth(c, data(c, random.pick({1.0, 20.0})));
  });
}

TEST_F(VocabularyParallelTest, LogitsOfAnySizeNeitherOverflowNorVanish) {
  for_cases([&](Case c) {
    c.vocab = std::max(c.vocab, as_size(c.ranks));
    const Data whole = data(c);
    const Range high = c.vocabulary_of(static_cast<int>(random.between(0, as_size(c.ranks) - 1)));
    whole.logits.fill(random.pick({-1e4, 0.0, 1e4}));
    whole.logits.slice(-1, high).fill(random.pick({-1e4, 2e4}));
    expect_truth(c, whole);
  });
}

TEST_F(VocabularyParallelTest, ATokenWithoutATargetHasNoLossAndNoGradient) {
  constexpr const char* kHint =
      "Hint: a target may be ops::kNoTarget: that token adds nothing to the loss, and 0 stands in "
      "its gradient.";
  for_cases([&](Case c) {
    c.batch = 1;
    c.seq = random.between(2, 5);
    const Data whole = data(c);
    whole.targets.span<std::int32_t>()[0] = ops::kNoTarget;
    Case others = c;
    --others.seq;
    const Truth truth(others, {.logits = whole.logits.slice(1, {1, c.seq}).contiguous(),
                               .targets = whole.targets.slice(1, {1, c.seq}).contiguous()});
    SCOPED_TRACE(kHint);
    std::vector<Outcome> outcomes = run(c, whole);
    for (Outcome& outcome : outcomes) {
      EXPECT_THAT(outcome.gradient.slice(1, {0, 1}).to_vector(), Each(0.0));
      outcome.gradient = outcome.gradient.slice(1, {1, c.seq}).contiguous();
    }
    truth.expect_losses(outcomes);
    truth.expect_gradients(outcomes);
  });
}

TEST_F(VocabularyParallelTest, TheGradientMatchesFiniteDifferences) {
  Case c = draw(3, DType::kF64);
  c.vocab = 7;
  c.batch = 1;
  const Data whole = data(c);
  const auto loss = [&] { return run(c, whole)[0].loss; };
  const std::vector<Outcome> outcomes = run(c, whole);
  if (HasFailure()) return;
  const Tensor gradient = whole.logits.clone();
  for (int rank = 0; rank < c.ranks; ++rank) {
    const Range own = c.vocabulary_of(rank);
    gradient.slice(-1, own).copy_from(outcomes[as_size(rank)].gradient.slice(-1, {0, own.size()}));
  }
  EXPECT_TRUE(ultra::test::gradients_match(random, loss, {{"logits", whole.logits, gradient}}, 12))
      << test::kGradient;
}

TEST_F(VocabularyParallelTest, NanOnOneRankReachesTheLossOfAll) {
  for_cases([&](const Case& c) {
    const Data whole = data(c);
    const std::size_t column = random.between(0, c.vocab - 1);
    whole.logits.slice(-1, {column, column + 1}).fill(std::nan(""));
    for (const Outcome& outcome : run(c, whole)) {
      EXPECT_TRUE(std::isnan(outcome.loss))
          << "found " << outcome.loss << "\n"
          << "Hint: training must notice a NaN: no rank's loss may hide one.";
    }
  });
}

TEST_F(VocabularyParallelTest, ThreeNumbersPerTokenTravel) {
  for_cases([&](const Case& c) {
    const std::vector<Outcome> outcomes = run(c, data(c));
    for (int rank = 0; rank < c.ranks && !HasFailure(); ++rank) {
      const CommStats& stats = outcomes[as_size(rank)].sent;
      const auto all_reduce = [&](std::size_t n) {  // on a ring, whose chunks need not be equal
        const std::size_t own = comm::Chunks::even({0, n}, c.ranks)[rank].size();
        return (n - own + as_size(c.ranks - 1) * own) * size_of(c.dtype);
      };
      EXPECT_EQ(stats.sent_bytes(), all_reduce(c.tokens()) + all_reduce(2 * c.tokens()))
          << "bytes sent\nHint: per token the highest logit, the sum of exponentials and the "
             "target's logit, of the logits' dtype; the loss follows from them on every rank.";
      EXPECT_EQ(stats[OpKind::kAllReduce].operations, 2U)
          << "all-reduces\nHint: the sum of exponentials and the target's logit travel together.";
    }
  });
}

TEST_F(VocabularyParallelTest, TheGradientTakesTheLogitsPlace) {
  Case c = draw(2, DType::kF32);
  c.vocab = 200;
  for (const Outcome& outcome : run(c, data(c))) {
    EXPECT_LT(outcome.bytes, outcome.gradient.nbytes() / 2)
        << "bytes that the function took\nHint: three numbers per token; exponentials and gradient "
           "stand where the logits stood.";
  }
}

}  // namespace
}  // namespace ultra::tensor_parallel
