// Contract of exercise 05.3: loss and gradient of the whole logits from parts of them, against loops in
// extended precision, closed forms and finite differences; and how little travels.
#include "chapters/05_tensor_sequence_parallel/vocabulary_parallel.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/exercises/05_tensor_sequence_parallel/dense_truth.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/vocabulary_case.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/finite_difference.hpp"
#include "tests/support/on_ranks.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel {
namespace {

using test::as_size;
using test::Real;
using test::Token;
using ultra::test::count_of;
using ultra::test::rounding_bound;
using Case = test::VocabularyCase;
using Data = test::WholeLogits;

constexpr const char* kOwnMaximum =
    "Hint: each rank subtracted its own highest logit, so the exponentials that are added up have "
    "different scales: the highest of all ranks is needed first (ReduceOp::kMax).";
constexpr const char* kOwnSum =
    "Hint: the sum of exponentials is this rank's alone: softmax divides by the sum over all "
    "ranks' columns.";
constexpr const char* kTargetOnEveryRank =
    "Hint: every rank took a logit for the target, and the sum has all of them: the rank whose "
    "vocabulary has the target gives its logit, the others give 0.";
constexpr const char* kTargetNotShared =
    "Hint: the logit of the target is on one rank only, and all ranks need it: add it up over the "
    "ranks, to which the others give 0.";
constexpr const char* kPaddingCounts =
    "Hint: the padding is counted in the loss: columns behind the rank's vocabulary belong to no "
    "token.";
constexpr const char* kPaddingGradient =
    "Hint: the padding has a gradient: what stands in the columns behind the rank's vocabulary "
    "must be 0 afterwards, or rows of weights move that belong to no token.";
constexpr const char* kLossTimesRanks =
    "Hint: the loss is tp times too large: once the sums are shared, every rank has the whole "
    "loss, and nothing is left to add up.";
constexpr const char* kNormalizer = "Hint: loss and gradient are divided by the normalizer.";
constexpr const char* kOneHot =
    "Hint: 1 / normalizer is to be subtracted where the target is, on the rank that has it.";
constexpr const char* kLoss =
    "Hint: per token log(sum of exp(logit - highest)) + highest - logit of the target, with the "
    "highest and the sum over all ranks.";
constexpr const char* kGradient = "Hint: (softmax - one_hot) / normalizer of this rank's columns.";
constexpr const char* kOverflow =
    "Hint: exponentials overflow, or all that are added up vanish: subtract the highest logit of "
    "all ranks first, and add up over all ranks.";
constexpr const char* kSumsToZero =
    "Hint: of each token, softmax and one_hot both add up to 1 over all ranks.";
constexpr const char* kSameBits =
    "Hint: every rank computes the loss from the same three numbers per token, in the same order.";

/// What one rank has afterwards.
struct Outcome {
  double loss = 0;
  Tensor gradient;
};

std::vector<Outcome> run(const Case& c, const Data& data) {
  std::vector<Outcome> all(as_size(c.ranks));
  ultra::test::on_ranks(c.ranks, c.str(), [&](Communicator& tp) {
    const Device device = Device::cpu();
    const Tensor logits = data.part_of(c, tp.rank(), device);
    const double loss = vocabulary_parallel_cross_entropy(
        logits, test::copy_to(device, data.targets), c.vocabulary_of(tp.rank()), c.normalizer, tp);
    all[as_size(tp.rank())] = {.loss = loss, .gradient = logits};
  });
  return all;
}

/// Loss and gradient by plain loops, and what classic wrong answers give.
class Truth {
 public:
  Truth(const Case& c, const Data& data) : case_(c) {
    const std::vector<double> logits = data.logits.to_vector();
    const std::span<const std::int32_t> targets = data.targets.span<std::int32_t>();
    for (std::size_t t = 0; t < c.tokens(); ++t) {
      const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(t * c.vocab);
      tokens_.push_back({.logits = {begin, begin + static_cast<std::ptrdiff_t>(c.vocab)},
                         .target = static_cast<std::size_t>(targets[t])});
    }
  }

  [[nodiscard]] double loss() const {
    return mean([&](const Token& t) { return log_sum(t) - t.logits[t.target]; });
  }

  /// An exponential is off by 2 ulp and by its argument's rounding, eps |t| e^-|t| < eps; then come the
  /// sum over the vocabulary and the ranks, and a few operations in f64.
  [[nodiscard]] double loss_tolerance() const {
    const double sums =
        rounding_bound(case_.dtype, count_of(case_.vocab) + 2.0 * case_.ranks + 4, 1.0);
    double terms = 0;
    for (const Token& t : tokens_) {
      terms += static_cast<double>(std::abs(t.highest(all())) + std::abs(t.logits[t.target])) +
               std::log(count_of(case_.vocab));
    }
    return (count_of(tokens_.size()) * sums +
            rounding_bound(DType::kF64, count_of(tokens_.size()) + 6, terms)) /
           case_.normalizer;
  }

  void expect_losses(const std::vector<Outcome>& outcomes) const {
    for (int rank = 0; rank < case_.ranks; ++rank) {
      const double found = outcomes[as_size(rank)].loss;
      EXPECT_NEAR(found, loss(), loss_tolerance()) << "loss on rank " << rank << "\n"
                                                   << diagnosis(found, rank);
      EXPECT_EQ(found, outcomes[0].loss) << "loss on ranks " << rank << " and 0\n"
                                         << diagnosis(found, rank, kSameBits);
    }
  }

  void expect_gradients(const std::vector<Outcome>& outcomes) const {
    for (int rank = 0; rank < case_.ranks; ++rank) {
      const Tensor& found = outcomes[as_size(rank)].gradient;
      const Range own = case_.vocabulary_of(rank);
      const auto near = gradient_is(found, rank, Sum::kAll, 1, case_.normalizer);
      EXPECT_TRUE(near) << "gradient on rank " << rank << "\n" << gradient_diagnosis(found, rank);
      for (const double d : found.slice(-1, {own.size(), case_.columns()}).to_vector()) {
        EXPECT_EQ(d, 0.0) << "padding on rank " << rank << "\n" << kPaddingGradient;
        if (d != 0.0) return;
      }
      if (!near) return;
    }
  }

 private:
  enum class Sum { kAll, kOwn };

  [[nodiscard]] Range all() const { return {0, case_.vocab}; }
  [[nodiscard]] Real log_sum(const Token& t) const {
    const Real highest = t.highest(all());
    return std::log(t.sum(all(), highest)) + highest;
  }
  [[nodiscard]] bool owns(int rank, const Token& t) const {
    const Range own = case_.vocabulary_of(rank);
    return t.target >= own.begin && t.target < own.end;
  }
  [[nodiscard]] double mean(const std::function<Real(const Token&)>& loss_of) const {
    Real sum = 0;
    for (const Token& t : tokens_) sum += loss_of(t);
    return static_cast<double>(sum / static_cast<Real>(case_.normalizer));
  }

  /// What a wrong loss looks like.
  [[nodiscard]] std::string diagnosis(double found, int rank,
                                      const std::string& otherwise = kLoss) const {
    const auto is = [&](const std::function<Real(const Token&)>& loss_of) {
      const double suspect = mean(loss_of);
      return found == suspect || std::abs(found - suspect) <= 4 * loss_tolerance();
    };
    const Range own = case_.vocabulary_of(rank);
    const auto right = [&](const Token& t) { return t.logits[t.target]; };
    if (is([&](const Token& t) { return log_sum(t) - right(t); })) return otherwise;
    const auto own_maxima = [&](const Token& t) {
      Real sum = 0;
      for (int r = 0; r < case_.ranks; ++r) {
        const Range range = case_.vocabulary_of(r);
        if (range.size() > 0) sum += t.sum(range, t.highest(range));
      }
      return std::log(sum) + t.highest(own) - right(t);
    };
    if (is(own_maxima)) return kOwnMaximum;
    const auto own_sum = [&](const Token& t) {
      const Real highest = t.highest(all());
      return std::log(t.sum(own, highest)) + highest;
    };
    const auto own_target = [&](const Token& t) { return owns(rank, t) ? right(t) : Real{0}; };
    if (is([&](const Token& t) { return own_sum(t) - right(t); })) return kOwnSum;
    if (is([&](const Token& t) { return own_sum(t) - own_target(t); })) return kOwnSum;
    if (is([&](const Token& t) { return log_sum(t) - own_target(t); })) return kTargetNotShared;
    const auto target_of_all = [&](const Token& t) {
      Real sum = right(t);
      for (int r = 0; r < case_.ranks; ++r) {
        const Range range = case_.vocabulary_of(r);
        if (range.size() > 0 && !owns(r, t)) sum += t.logits[range.begin];
      }
      return log_sum(t) - sum;
    };
    if (is(target_of_all)) return kTargetOnEveryRank;
    const auto with_padding = [&](const Token& t) {
      const Real highest = std::max(t.highest(all()), static_cast<Real>(case_.padding));
      const std::size_t padding = case_.columns() * as_size(case_.ranks) - case_.vocab;
      return highest - right(t) +
             std::log(t.sum(all(), highest) +
                      static_cast<Real>(padding) *
                          std::exp(static_cast<Real>(case_.padding) - highest));
    };
    if (is(with_padding)) return kPaddingCounts;
    const auto times = [&](double factor) {
      return is(
          [&](const Token& t) { return static_cast<Real>(factor) * (log_sum(t) - right(t)); });
    };
    if (times(case_.ranks)) return kLossTimesRanks;
    if (times(case_.normalizer)) return kNormalizer;
    return std::isfinite(found) ? kLoss : std::isfinite(case_.padding) ? kOverflow : kPaddingCounts;
  }

  /// Whether a rank's gradient is (exp / sum - one_hot) / normalizer.
  [[nodiscard]] ::testing::AssertionResult gradient_is(const Tensor& found, int rank, Sum sum,
                                                       double one_hot, double normalizer) const {
    const Range own = case_.vocabulary_of(rank);
    std::vector<double> expected;
    std::vector<double> tolerances;
    for (const Token& t : tokens_) {
      const Real highest = t.highest(all());
      const Real total = t.sum(sum == Sum::kAll ? all() : own, highest);
      for (std::size_t i = own.begin; i < own.end; ++i) {
        const auto distance = static_cast<double>(highest - t.logits[i]);
        const auto p = static_cast<double>(std::exp(t.logits[i] - highest) / total);
        const double subtracted = i == t.target ? one_hot : 0.0;
        expected.push_back((p - subtracted) / normalizer);
        const double roundings = distance + count_of(case_.vocab) + 2.0 * case_.ranks + 8;
        tolerances.push_back((rounding_bound(case_.dtype, roundings, p) +
                              rounding_bound(case_.dtype, 2, subtracted) + 0x1.0p-120) /
                             normalizer);
      }
    }
    return ultra::test::all_near(found.slice(-1, {0, own.size()}).contiguous(), expected,
                                 tolerances);
  }
  [[nodiscard]] const char* gradient_diagnosis(const Tensor& found, int rank) const {
    if (gradient_is(found, rank, Sum::kOwn, 1, case_.normalizer)) return kOwnSum;
    if (gradient_is(found, rank, Sum::kAll, 0, case_.normalizer)) return kOneHot;
    if (gradient_is(found, rank, Sum::kAll, 1, 1)) return kNormalizer;
    return kGradient;
  }

  Case case_;
  std::vector<Token> tokens_;
};

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
    for (const int ranks : {1, 2, 3, 4, 5, 8}) {
      for (const DType dtype : ultra::test::kFloatDTypes) {
        if (!HasFailure()) check(draw(ranks, dtype));
      }
    }
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

TEST_F(VocabularyParallelTest, EqualPartsAreTheWholeSoftmax) {
  for_cases([&](Case c) {
    c.vocab = as_size(c.ranks) * random.between(1, 6);
    c.more_padding = 0;
    expect_truth(c, data(c));
  });
}

TEST_F(VocabularyParallelTest, PaddedPartsAreTheWholeSoftmax) {
  for_cases([&](const Case& c) { expect_truth(c, data(c, random.pick({0.1, 1.0, 20.0}))); });
}

TEST_F(VocabularyParallelTest, NothingDependsOnWhatStandsInThePadding) {
  for_cases([&](Case c) {
    c.more_padding = random.between(1, 3);
    c.padding = random.pick({std::nan(""), std::numeric_limits<double>::infinity(), 1e30});
    expect_truth(c, data(c));
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

TEST_F(VocabularyParallelTest, EqualLogitsCostTheLogarithmOfTheVocabulary) {
  for_cases([&](Case c) {
    c.normalizer = count_of(c.tokens());
    const Data whole = data(c);
    whole.logits.fill(random.uniform(-50.0, 50.0));
    const std::vector<Outcome> outcomes = run(c, whole);
    if (HasFailure()) return;
    for (const Outcome& outcome : outcomes) {
      EXPECT_NEAR(outcome.loss, std::log(count_of(c.vocab)), Truth(c, whole).loss_tolerance())
          << kLoss;
    }
  });
}

TEST_F(VocabularyParallelTest, AGradientSumsToZeroOverAllRanks) {
  for_cases([&](const Case& c) {
    const std::vector<Outcome> outcomes = run(c, data(c));
    if (HasFailure()) return;
    for (std::size_t t = 0; t < c.tokens(); ++t) {
      double sum = 0;
      for (const Outcome& outcome : outcomes) {
        const Tensor rows = outcome.gradient.view({c.tokens(), c.columns()});
        for (const double d : rows.slice(0, {t, t + 1}).to_vector()) sum += d;
      }
      const double roundings = 2 * count_of(c.vocab) + 2.0 * c.ranks + 20;
      EXPECT_NEAR(sum, 0.0, rounding_bound(c.dtype, roundings, 2 / c.normalizer)) << kSumsToZero;
    }
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
      << kGradient;
}

TEST_F(VocabularyParallelTest, NanOnOneRankReachesTheLossOfAll) {
  for_cases([&](const Case& c) {
    const Data whole = data(c);
    const std::size_t column = random.between(0, c.vocab - 1);
    whole.logits.slice(-1, {column, column + 1}).fill(std::nan(""));
    for (const Outcome& outcome : run(c, whole)) {
      EXPECT_TRUE(std::isnan(outcome.loss)) << "found " << outcome.loss << "\n"
                                            << "Hint: training must notice a NaN: no rank's loss "
                                               "may hide one.";
    }
  });
}

TEST_F(VocabularyParallelTest, ThreeNumbersPerTokenTravel) {
  for_cases([&](const Case& c) {
    const Data whole = data(c);
    const auto count = [&](Communicator& tp) {
      const Tensor logits = whole.part_of(c, tp.rank(), Device::cpu());
      static_cast<void>(vocabulary_parallel_cross_entropy(
          logits, whole.targets, c.vocabulary_of(tp.rank()), c.normalizer, tp));
      const CommStats stats = tp.stats();
      const auto all_reduce = [&](std::size_t n) {  // on a ring, whose chunks need not be equal
        const std::size_t own = comm::Chunks::even({0, n}, c.ranks)[tp.rank()].size();
        return (n - own + as_size(c.ranks - 1) * own) * size_of(c.dtype);
      };
      EXPECT_EQ(stats.sent_bytes(), all_reduce(c.tokens()) + all_reduce(2 * c.tokens()))
          << "bytes sent\nHint: per token the highest logit, the sum of exponentials and the "
             "target's logit, of the logits' dtype; the loss follows from them on every rank.";
      EXPECT_EQ(stats[OpKind::kAllReduce].operations, 2U)
          << "all-reduces\nHint: the sum of exponentials and the target's logit travel together.";
    };
    ultra::test::on_ranks(c.ranks, c.str(), count);
  });
}

TEST_F(VocabularyParallelTest, TheGradientTakesTheLogitsPlace) {
  Case c = draw(2, DType::kF32);
  c.vocab = 200;
  const Data whole = data(c);
  const auto measure = [&](Communicator& tp) {
    const Device own = Device::cpu();
    const Tensor logits = whole.part_of(c, tp.rank(), own);
    const Tensor targets = test::copy_to(own, whole.targets);
    const std::size_t before = own.memory().current().total();
    own.reset_memory_peaks();
    static_cast<void>(vocabulary_parallel_cross_entropy(logits, targets, c.vocabulary_of(tp.rank()),
                                                        c.normalizer, tp));
    EXPECT_LT(own.memory().peak_total().bytes - before, logits.nbytes() / 2)
        << "bytes that the function took\nHint: three numbers per token; exponentials and gradient "
           "stand where the logits stood.";
    EXPECT_EQ(targets.to_vector(), whole.targets.to_vector()) << "Hint: targets are read only.";
  };
  ultra::test::on_ranks(c.ranks, c.str(), measure);
}

/// Through the layer that a model has at its end.
TEST_F(VocabularyParallelTest, MicroBatchesUnderOneNormalizerAddUp) {
  for_cases([&](Case c) {
    c.batch = 2;
    const Data whole = data(c);
    std::vector<Outcome> outcomes(as_size(c.ranks));
    ultra::test::on_ranks(c.ranks, c.str(), [&](Communicator& tp) {
      VocabularyParallelLoss layer(c.vocab, tp);
      Outcome& outcome = outcomes[as_size(tp.rank())];
      outcome.gradient = whole.part_of(c, tp.rank(), Device::cpu());
      bool in_place = true;
      for (std::size_t m = 0; m < c.batch; ++m) {
        nn::Saved saved;
        const Tensor logits = outcome.gradient.slice(0, {m, m + 1});
        outcome.loss +=
            layer.forward(logits, whole.targets.slice(0, {m, m + 1}), c.normalizer, saved);
        in_place = in_place && layer.backward(saved).shares_storage(logits);
      }
      EXPECT_TRUE(in_place) << "Hint: the gradient takes the logits' place.";
    });
    if (HasFailure()) return;
    Truth(c, whole).expect_losses(outcomes);
    Truth(c, whole).expect_gradients(outcomes);
  });
}

}  // namespace
}  // namespace ultra::tensor_parallel
