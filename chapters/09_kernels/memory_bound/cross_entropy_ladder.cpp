#include "chapters/09_kernels/memory_bound/cross_entropy_ladder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "common/tensor/philox.hpp"
#include "kernels/cross_entropy/cross_entropy.hpp"
#include "kernels/simt/buffer.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::cross_entropy;

class CrossEntropy {
 public:
  using Problem = rungs_of::Problem;

  template <simt::Side side>
  class Buffers {
   public:
    explicit Buffers(const CrossEntropy& work)
        : work_(work),
          targets_("targets", work.targets_),
          logits_("logits", work.logits_),
          losses_("losses", poison(work.tokens_)),
          probabilities_("probabilities", work.logits_.size()),
          log_sums_("log_sums", work.tokens_) {}

    Problem problem() {
      return {.tokens = static_cast<int>(work_.tokens_),
              .vocab = static_cast<int>(work_.vocab_),
              .scale = work_.scale_,
              .targets = targets_.data(),
              .logits = logits_.data(),
              .losses = losses_.data(),
              .probabilities = probabilities_.data(),
              .log_sums = log_sums_.data()};
    }
    [[nodiscard]] std::vector<float> losses() const { return losses_.download(); }
    [[nodiscard]] std::vector<float> d_logits() const { return logits_.download(); }

   private:
    const CrossEntropy& work_;
    simt::Buffer<int, side> targets_;
    simt::Buffer<float, side> logits_;
    simt::Buffer<float, side> losses_;
    simt::Buffer<float, side> probabilities_;
    simt::Buffer<float, side> log_sums_;
  };

  CrossEntropy(const Sizes& sizes, std::uint64_t seed)
      : tokens_(static_cast<std::size_t>(sizes[0])),
        vocab_(static_cast<std::size_t>(sizes[1])),
        scale_(1.0F / static_cast<float>(sizes[0])),
        seed_(seed),
        logits_(normal_values(tokens_ * vocab_, seed, "logits")) {
    for (float& logit : logits_) {
      logit = 3.0F * logit + 20.0F;  // as a model's: not around 0, and some far more likely
    }
    const PhiloxStream stream(seed, "targets");
    for (std::size_t token = 0; token < tokens_; ++token) {
      targets_.push_back(static_cast<int>(stream.below(token, vocab_)));
    }
  }

  static LadderInfo describe() {
    return {.name = "cross_entropy",
            .title = "cross-entropy of logits, which become their gradients, in fp32",
            .dimensions = {{.name = "tokens", .emulated = 10, .gpu = 4096},
                           {.name = "vocab", .emulated = 640, .gpu = 32000}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Side;
    return {{.info = {.number = 1,
                      .name = "materialized",
                      .idea = "probabilities, losses and gradients in three kernels",
                      .file = "kernels/cross_entropy/01_materialized.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::materialized<side>(a...); })},
            {.info = {.number = 2,
                      .name = "log_sum_exp",
                      .idea = "log-sum-exp by a warp per row, then gradients: no probabilities",
                      .file = "kernels/cross_entropy/02_log_sum_exp.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::log_sum_exp<side>(a...); })},
            {.info = {.number = 3,
                      .name = "online",
                      .idea = "one kernel: maximum and sum in one pass, 16 bytes an access",
                      .file = "kernels/cross_entropy/03_online.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::online<side>(a...); })},
            {.info = {.number = 4,
                      .name = "in_shared",
                      .idea = "the row in shared memory: logits are read once",
                      .file = "kernels/cross_entropy/04_in_shared.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::in_shared<side>(a...); }),
             .refusal = refuse_long_rows}};
  }

  /// Per element: maximum, difference, exponential, sum; difference, exponential, product.
  static Cost cost(const Sizes& sizes) {
    const double tokens = sizes[0];
    const double vocab = sizes[1];
    return {.operations = 7.0 * tokens * vocab,
            .least_bytes = 4.0 * (2.0 * tokens * vocab + 2.0 * tokens)};
  }

  template <simt::Side side>
  Verdict judge(const Buffers<side>& buffers) const {
    const std::vector<float> losses = buffers.losses();
    const std::vector<float> d_logits = buffers.d_logits();
    Verdict verdict;
    for (const std::size_t token : sample(tokens_, kMostElements / vocab_ + 2, seed_)) {
      judge_token(token, losses[token], d_logits, verdict);
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostElements = std::size_t{1} << 22;  // of the f64 computation

  static std::string refuse_long_rows(const Sizes& sizes) {
    return sizes[1] <= rungs_of::kLongestSharedRow
               ? std::string()
               : fmt::format(
                     "a row of {} logits does not fit shared memory, expected at most {}. "
                     "Hint: rung 3 does any length",
                     sizes[1], rungs_of::kLongestSharedRow);
  }

  // Errors, with u of every operation, `range` the largest difference of two logits:
  //  - a term exp(logit - highest): range u of the difference, 4 u of expf (2 ulp, CUDA C++
  //    Programming Guide, mathematical functions);
  //  - a term on its way into the sum: V additions at most; where the maximum is not known before,
  //    a rescaling by an exponential and a product (5 u, and u of each difference: range u in all)
  //    at each of a thread's V / 512 + 1 steps and of the 10 steps in which threads merge;
  //  - so the sum relatively, and its logarithm absolutely, by gamma of all these; logf adds 4 u of
  //    itself, the additions behind it u of their results;
  //  - a probability relatively by the error of its exponent, and 4 u of expf.
  void judge_token(std::size_t token, float loss, const std::vector<float>& d_logits,
                   Verdict& verdict) const {
    const auto begin = logits_.begin() + static_cast<std::ptrdiff_t>(token * vocab_);
    const auto [low, high] =
        std::minmax_element(begin, begin + static_cast<std::ptrdiff_t>(vocab_));
    const double highest = *high;
    const double range = highest - double{*low};
    double sum = 0.0;
    for (std::size_t i = token * vocab_; i < (token + 1) * vocab_; ++i) {
      sum += std::exp(double{logits_[i]} - highest);
    }
    const double log_sum = highest + std::log(sum);
    const auto v = static_cast<double>(vocab_);
    const double of_log_sum = rounding_of(v + 4.0 + 2.0 * range + 5.0 * (v / 512.0 + 11.0)) +
                              rounding_of(5) * (std::abs(std::log(sum)) + std::abs(highest));

    const auto target = static_cast<std::size_t>(targets_[token]);
    const double expected_loss = log_sum - double{logits_[token * vocab_ + target]};
    verdict.compare("losses", token, double{loss}, expected_loss,
                    of_log_sum + rounding_of(5) * expected_loss);

    for (std::size_t column = 0; column < vocab_; ++column) {
      const std::size_t i = token * vocab_ + column;
      const double probability = std::exp(double{logits_[i]} - log_sum);
      const double difference = probability - (column == target ? 1.0 : 0.0);
      const double of_probability =
          probability * (of_log_sum + rounding_of(std::abs(double{logits_[i]} - log_sum) + 6.0));
      verdict.compare("d_logits", i, double{d_logits[i]}, difference * double{scale_},
                      double{scale_} * (of_probability + rounding_of(2) * std::abs(difference)));
    }
  }

  std::size_t tokens_;
  std::size_t vocab_;
  float scale_;
  std::uint64_t seed_;
  std::vector<float> logits_;  // (tokens, vocab)
  std::vector<int> targets_;   // (tokens)
};

}  // namespace

std::unique_ptr<Ladder> cross_entropy_ladder() {
  return std::make_unique<LadderOf<CrossEntropy>>();
}

}  // namespace ultra::ladders
