#pragma once
/// @file
/// A vocabulary in parts, the logits as a whole, and loss and gradient in extended precision, by
/// plain loops; with what classic wrong answers give.

#include "chapters/05_tensor_sequence_parallel/vocabulary_parallel.hpp"
#include "tests/exercises/05_tensor_sequence_parallel/whole_numbers.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel::test {

using Real = long double;

/// @brief A vocabulary in parts.
struct VocabularyCase {
  int ranks = 1;
  DType dtype = DType::kF32;
  std::size_t vocab = 1;
  std::size_t more_padding = 0;  ///< columns of each rank beyond ceil(vocab / ranks)
  std::size_t batch = 1;
  std::size_t seq = 1;
  double normalizer = 1;
  double padding = 0;  ///< what stands behind each rank's vocabulary

  [[nodiscard]] std::size_t tokens() const { return batch * seq; }
  [[nodiscard]] std::size_t part() const { return (vocab + as_size(ranks) - 1) / as_size(ranks); }
  [[nodiscard]] std::size_t columns() const { return part() + more_padding; }
  [[nodiscard]] Range vocabulary_of(int rank) const {
    return {std::min(as_size(rank) * part(), vocab), std::min((as_size(rank) + 1) * part(), vocab)};
  }
  [[nodiscard]] std::string str() const {
    return fmt::format(
        "{}, vocabulary of {} in parts of {}, {} columns of each rank, {} sequences of {} tokens, "
        "normalizer {}",
        to_string(dtype), vocab, part(), columns(), batch, seq, normalizer);
  }
};

/// @brief The whole logits.
struct WholeLogits {
  Tensor logits;   ///< [batch, seq, vocab]
  Tensor targets;  ///< [batch, seq]

  /// A rank's columns, with the padding behind them.
  [[nodiscard]] Tensor part_of(const VocabularyCase& c, int rank, const Device& device) const {
    const Range own = c.vocabulary_of(rank);
    const Tensor part = Tensor::empty(device, {c.batch, c.seq, c.columns()}, c.dtype);
    part.fill(c.padding);
    part.slice(-1, {0, own.size()}).copy_from(logits.slice(-1, own));
    return part;
  }
};

/// @brief One token's logits in extended precision.
struct Token {
  std::vector<Real> logits;
  std::size_t target;

  [[nodiscard]] Real highest(Range range) const {
    Real result = -std::numeric_limits<Real>::infinity();
    for (std::size_t i = range.begin; i < range.end; ++i) result = std::max(result, logits[i]);
    return result;
  }
  [[nodiscard]] Real sum(Range range, Real subtracted) const {
    Real result = 0;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      result += std::exp(logits[i] - subtracted);
    }
    return result;
  }
};

inline constexpr const char* kOwnSum =
    "Hint: the sum of exponentials is this rank's alone: softmax divides by the sum over all "
    "ranks' columns.";
inline constexpr const char* kPaddingCounts =
    "Hint: the padding is counted in the loss: columns behind the rank's vocabulary belong to no "
    "token.";
inline constexpr const char* kNormalizer = "Hint: loss and gradient are divided by the normalizer.";
inline constexpr const char* kLoss =
    "Hint: per token log(sum of exp(logit - highest)) + highest - logit of the target, with the "
    "highest and the sum over all ranks.";
inline constexpr const char* kGradient =
    "Hint: (softmax - one_hot) / normalizer of this rank's columns.";

/// @brief What one rank has afterwards.
struct Outcome {
  double loss = 0;
  Tensor gradient;
  CommStats sent;
  std::size_t bytes = 0;  ///< that the function took beside the logits
};

inline std::vector<Outcome> run(const VocabularyCase& c, const WholeLogits& data) {
  std::vector<Outcome> all(as_size(c.ranks));
  ultra::test::on_ranks(c.ranks, c.str(), [&](Communicator& tp) {
    const Device device = Device::cpu();
    const Tensor logits = data.part_of(c, tp.rank(), device);
    const Tensor targets = copy_to(device, data.targets);
    Outcome& own = all[as_size(tp.rank())];
    own.gradient = logits;
    own.bytes = ultra::test::cost_of(tp, device, [&] {
                  own.loss = vocabulary_parallel_cross_entropy(
                      logits, targets, c.vocabulary_of(tp.rank()), c.normalizer, tp);
                }).peak_bytes;
    own.sent = tp.stats();
    EXPECT_TRUE(ultra::test::all_equal(targets, data.targets)) << "Hint: targets are read only.";
  });
  return all;
}

/// @brief Loss and gradient by plain loops, and what classic wrong answers give.
class Truth {
 public:
  Truth(const VocabularyCase& c, const WholeLogits& data) : case_(c) {
    const std::vector<double> logits = data.logits.to_vector();
    const std::span<const std::int32_t> targets = data.targets.span<std::int32_t>();
    for (std::size_t t = 0; t < c.tokens(); ++t) {
      const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(t * c.vocab);
      tokens_.push_back({.logits = {begin, begin + static_cast<std::ptrdiff_t>(c.vocab)},
                         .target = static_cast<std::size_t>(targets[t])});
    }
  }

  [[nodiscard]] double loss() const {
    Real sum = 0;
    for (const Token& t : tokens_) sum += log_sum(t) - t.logits[t.target];
    return static_cast<double>(sum / static_cast<Real>(case_.normalizer));
  }

  /// An exponential is off by 2 ulp and by its argument's rounding, eps |t| e^-|t| < eps; then come
  /// the sum over the vocabulary and the ranks, and a few operations in f64.
  [[nodiscard]] double loss_tolerance() const {
    const double sums = ultra::test::rounding_bound(
        case_.dtype, ultra::test::count_of(case_.vocab) + 2.0 * case_.ranks + 4, 1.0);
    double terms = 0;
    for (const Token& t : tokens_) {
      terms += static_cast<double>(std::abs(t.highest(all())) + std::abs(t.logits[t.target])) +
               std::log(ultra::test::count_of(case_.vocab));
    }
    return (ultra::test::count_of(tokens_.size()) * sums +
            ultra::test::rounding_bound(DType::kF64, ultra::test::count_of(tokens_.size()) + 6,
                                        terms)) /
           case_.normalizer;
  }

  void expect_losses(const std::vector<Outcome>& outcomes) const {
    for (int rank = 0; rank < case_.ranks; ++rank) {
      const double found = outcomes[as_size(rank)].loss;
      EXPECT_NEAR(found, loss(), loss_tolerance()) << "loss on rank " << rank << "\n"
                                                   << diagnosis(found, rank);
      if (::testing::Test::HasFailure()) continue;
      EXPECT_EQ(found, outcomes[0].loss)
          << "loss on ranks " << rank << " and 0\nHint: every rank computes the loss from the same "
          << "three numbers per token, in the same order.";
    }
  }

  void expect_gradients(const std::vector<Outcome>& outcomes) const {
    for (int rank = 0; rank < case_.ranks; ++rank) {
      const Tensor& found = outcomes[as_size(rank)].gradient;
      const Range own = case_.vocabulary_of(rank);
      const auto near = gradient_is(found, rank, Sum::kAll, 1, case_.normalizer);
      EXPECT_TRUE(near) << "gradient on rank " << rank << "\n" << gradient_diagnosis(found, rank);
      for (const double d : found.slice(-1, {own.size(), case_.columns()}).to_vector()) {
        EXPECT_EQ(d, 0.0)
            << "padding on rank " << rank << "\n"
            << "Hint: the padding has a gradient: what stands in the columns behind the rank's "
               "vocabulary must be 0 afterwards, or rows of weights move that belong to no token.";
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
  /// What to say about a wrong loss, by what each mistake makes of the tokens' losses.
  [[nodiscard]] const char* diagnosis(double found, int rank) const {
    const char* const hints[] = {
        kLoss,
        "Hint: each rank subtracted its own highest logit, so the exponentials that are added up "
        "have different scales: the highest of all ranks is needed first (ReduceOp::kMax).",
        kOwnSum,
        kOwnSum,
        "Hint: the logit of the target is on one rank only, and all ranks need it: add it up over "
        "the ranks, to which the others give 0.",
        "Hint: every rank took a logit for the target, and the sum has all of them: the rank whose "
        "vocabulary has the target gives its logit, the others give 0.",
        kPaddingCounts,
        "Hint: the loss is tp times too large: once the sums are shared, every rank has the whole "
        "loss, and nothing is left to add up.",
        kNormalizer};
    Real losses[std::size(hints)] = {};
    for (const Token& t : tokens_) {
      const Range own = case_.vocabulary_of(rank);
      const Real right = t.logits[t.target];
      const Real own_target = owns(rank, t) ? right : Real{0};
      const Real own_sum = std::log(t.sum(own, t.highest(all()))) + t.highest(all());
      Real sums_apart = 0;  // of ranks that have a vocabulary
      Real targets = 0;
      for (int r = 0; r < case_.ranks; ++r) {
        const Range range = case_.vocabulary_of(r);
        if (range.size() == 0) continue;
        sums_apart += t.sum(range, t.highest(range));
        targets += owns(r, t) ? right : t.logits[range.begin];
      }
      const auto padding = static_cast<Real>(case_.padding);
      const auto padded = static_cast<Real>(case_.columns() * as_size(case_.ranks) - case_.vocab);
      const Real highest = std::max(t.highest(all()), padding);
      const Real with_padding = t.sum(all(), highest) + padded * std::exp(padding - highest);
      const Real of_token[] = {log_sum(t) - right,
                               t.highest(own) - right + std::log(sums_apart),
                               own_sum - right,
                               own_sum - own_target,
                               log_sum(t) - own_target,
                               log_sum(t) - targets,
                               highest - right + std::log(with_padding),
                               case_.ranks * (log_sum(t) - right),
                               static_cast<Real>(case_.normalizer) * (log_sum(t) - right)};
      for (std::size_t i = 0; i < std::size(losses); ++i) losses[i] += of_token[i];
    }
    for (std::size_t i = 0; i < std::size(losses); ++i) {
      const auto suspect = static_cast<double>(losses[i] / static_cast<Real>(case_.normalizer));
      if (found == suspect || std::abs(found - suspect) <= 4 * loss_tolerance()) return hints[i];
    }
    if (std::isfinite(found)) return kLoss;
    return std::isfinite(case_.padding)
               ? "Hint: exponentials overflow, or all that are added up vanish: subtract the "
                 "highest logit of all ranks first, and add up over all ranks."
               : kPaddingCounts;
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
        const double roundings =
            distance + ultra::test::count_of(case_.vocab) + 2.0 * case_.ranks + 8;
        tolerances.push_back((ultra::test::rounding_bound(case_.dtype, roundings, p) +
                              ultra::test::rounding_bound(case_.dtype, 2, subtracted) +
                              0x1.0p-120) /
                             normalizer);
      }
    }
    return ultra::test::all_near(found.slice(-1, {0, own.size()}).contiguous(), expected,
                                 tolerances);
  }
  [[nodiscard]] const char* gradient_diagnosis(const Tensor& found, int rank) const {
    if (gradient_is(found, rank, Sum::kOwn, 1, case_.normalizer)) return kOwnSum;
    if (gradient_is(found, rank, Sum::kAll, 0, case_.normalizer)) {
      return "Hint: 1 / normalizer is to be subtracted where the target is, on the rank that has "
             "it.";
    }
    if (gradient_is(found, rank, Sum::kAll, 1, 1)) return kNormalizer;
    return kGradient;
  }

  VocabularyCase case_;
  std::vector<Token> tokens_;
};

}  // namespace ultra::tensor_parallel::test
