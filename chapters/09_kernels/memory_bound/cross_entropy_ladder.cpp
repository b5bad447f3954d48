#include "chapters/09_kernels/ladders.hpp"

#include <algorithm>
#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "common/tensor/philox.hpp"
#include "kernels/ladders/rows/cross_entropy/cross_entropy.hpp"

namespace ultra::ladders {
namespace {

class CrossEntropy {
 public:
  using Problem = kernels::cross_entropy::Problem;

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

  Problem problem(ProblemBuffers& buffers) const {
    return {.tokens = static_cast<int>(tokens_),
            .vocab = static_cast<int>(vocab_),
            .scale = scale_,
            .targets = buffers.input("targets", targets_),
            .logits = buffers.input("logits", logits_),
            .losses = buffers.output("losses", tokens_),
            .probabilities = buffers.scratch("probabilities", logits_.size()),
            .log_sums = buffers.scratch("log_sums", tokens_)};
  }

  static LadderInfo describe() {
    return {.name = "cross_entropy",
            .title = "cross-entropy of logits, which become their gradients, in fp32",
            .dimensions = {{.name = "tokens", .emulated = 10, .gpu = 4096},
                           {.name = "vocab", .emulated = 640, .gpu = 32000}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::cross_entropy;
    using simt::Executor;
    return RungTable<Problem>("rows/cross_entropy")
        .add("materialized", "probabilities, losses and gradients in three kernels",
             []<Executor executor>(const auto&... a) { rungs_of::materialized<executor>(a...); })
        .add("log_sum_exp", "log-sum-exp by a warp per row, then gradients: no probabilities",
             []<Executor executor>(const auto&... a) { rungs_of::log_sum_exp<executor>(a...); })
        .add("online", "one kernel: maximum and sum in one pass, 16 bytes an access",
             []<Executor executor>(const auto&... a) { rungs_of::online<executor>(a...); })
        .add("in_shared", "the row in shared memory: logits are read once", refuse_long_rows,
             []<Executor executor>(const auto&... a) { rungs_of::in_shared<executor>(a...); })
        .rungs();
  }

  /// Per element: maximum, difference, exponential, sum; difference, exponential, product.
  static Cost cost(const Sizes& sizes) {
    const double tokens = sizes[0];
    const double vocab = sizes[1];
    return {.operations = 7.0 * tokens * vocab,
            .least_bytes = 4.0 * (2.0 * tokens * vocab + 2.0 * tokens),
            .written_bytes = 4.0 * (tokens * vocab + tokens)};
  }

  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<float> losses = buffers.download(problem.losses);
    const std::vector<float> d_logits = buffers.download(problem.logits);
    Verdict verdict;
    for (const std::size_t token : sample(tokens_, kMostElements / vocab_ + 2, seed_)) {
      judge_token(token, losses[token], d_logits, verdict);
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostElements = std::size_t{1} << 22;  // of the f64 computation

  static std::string refuse_long_rows(const Sizes& sizes) {
    return ladders::refuse_long_rows(
        sizes[1], kernels::cross_entropy::kLongestSharedRow,
        {.unit = " logits", .name = "shared memory", .hint = "rung 3 does any length"});
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
