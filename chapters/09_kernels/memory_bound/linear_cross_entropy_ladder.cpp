#include "chapters/09_kernels/ladders.hpp"

#include <algorithm>
#include <cmath>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "common/tensor/philox.hpp"
#include "kernels/ladders/rows/linear_cross_entropy/linear_cross_entropy.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;

std::string refuse_ragged_hidden(const Sizes& sizes) {
  if (sizes[2] % 8 == 0) {
    return {};
  }
  return fmt::format(
      "hidden is {}, expected a multiple of 8: rows of x and weight must begin at multiples of 16 "
      "bytes",
      sizes[2]);
}

constexpr std::size_t kMostLogits = std::size_t{1} << 32;

// The logits of a large problem do not fit: that is the ladder's subject.
std::string refuse_many_logits(const Sizes& sizes) {
  if (kernels::linear_cross_entropy::logits_size(sizes[0], sizes[1]) > kMostLogits) {
    return fmt::format("{} x {} logits take more than 16 GiB. Hint: rung 2 keeps none", sizes[0],
                       sizes[1]);
  }
  return refuse_ragged_hidden(sizes);
}

class LinearCrossEntropy {
 public:
  using Problem = kernels::linear_cross_entropy::Problem;

  LinearCrossEntropy(const Sizes& sizes, std::uint64_t seed)
      : tokens_(sizes[0]),
        vocab_(sizes[1]),
        hidden_(static_cast<std::size_t>(sizes[2])),
        seed_(seed),
        x_(to_bf16(normal_values(element_count({sizes[0], sizes[2]}), seed, "x"))),
        weight_(to_bf16(small_weights(sizes, seed))) {
    const PhiloxStream stream(seed, "targets");
    for (int token = 0; token < tokens_; ++token) {
      targets_.push_back(static_cast<int>(
          stream.below(static_cast<std::uint64_t>(token), static_cast<std::uint64_t>(vocab_))));
    }
  }

  Problem problem(ProblemBuffers& buffers) const {
    const std::size_t logits = kernels::linear_cross_entropy::logits_size(tokens_, vocab_);
    const std::size_t partials = kernels::linear_cross_entropy::partials_size(tokens_, vocab_);
    const std::size_t scratch = logits > kMostLogits ? partials : std::max(logits, partials);
    return {.tokens = tokens_,
            .vocab = vocab_,
            .hidden = static_cast<int>(hidden_),
            .x = buffers.input("x", x_),
            .weight = buffers.input("weight", weight_),
            .targets = buffers.input("targets", targets_),
            .losses = buffers.output("losses", targets_.size()),
            .target_logits = buffers.scratch("target_logits", targets_.size()),
            .scratch = buffers.scratch("scratch", scratch)};
  }

  static LadderInfo describe() {
    return {.name = "linear_cross_entropy",
            .title = "losses of x transpose(weight) as logits, in bf16 on tensor cores",
            .dimensions = {{.name = "tokens", .emulated = 40, .gpu = 8192},
                           {.name = "vocab", .emulated = 200, .gpu = 128256},
                           {.name = "hidden", .emulated = 64, .gpu = 4096}},
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::linear_cross_entropy;
    using simt::Executor;
    return RungTable<Problem>("rows/linear_cross_entropy")
        .add("materialized", "a product that writes the logits, then a kernel that reads them",
             refuse_many_logits,
             []<Executor executor>(const auto&... a) { rungs_of::materialized<executor>(a...); })
        .add("fused", "tiles of logits are reduced in registers: none goes to memory",
             refuse_ragged_hidden,
             []<Executor executor>(const auto&... a) { rungs_of::fused<executor>(a...); })
        .rungs();
  }

  static Cost cost(const Sizes& sizes) {
    const double tokens = sizes[0];
    const double vocab = sizes[1];
    const double hidden = sizes[2];
    return {.operations = 2.0 * tokens * vocab * hidden,
            .least_bytes = 2.0 * (tokens + vocab) * hidden + 4.0 * 2.0 * tokens};
  }

  /// Each logit is off by at most E as the elements of the ladder matmul_bf16 are, before they are
  /// rounded. The logarithm of the sum moves by no more than the worst logit does. Its terms are
  /// exponentials (2 ulp, and the rounding of their arguments, at most the largest magnitude M of a
  /// logit, twice), merged in at most vocab additions and 2 more factors at each of vocab / 8
  /// merges; then a logarithm, an addition and a difference.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<float> losses = buffers.download(problem.losses);
    const std::size_t row = hidden_ * static_cast<std::size_t>(vocab_);
    Verdict verdict;
    for (const std::size_t token : sample(losses.size(), kMostProducts / row + 2, seed_)) {
      judge_token(token, losses[token], verdict);
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostProducts = std::size_t{1} << 26;  // of the f64 computation

  // As a model begins with: logits are about as large as a standard normal number.
  static std::vector<float> small_weights(const Sizes& sizes, std::uint64_t seed) {
    std::vector<float> weights = normal_values(element_count({sizes[1], sizes[2]}), seed, "weight");
    for (float& weight : weights) {
      weight /= std::sqrt(static_cast<float>(sizes[2]));
    }
    return weights;
  }

  [[nodiscard]] ExactSum logit(std::size_t token, std::size_t column) const {
    ExactSum sum;
    for (std::size_t k = 0; k < hidden_; ++k) {
      sum.add(value_of(x_[token * hidden_ + k]) * value_of(weight_[column * hidden_ + k]));
    }
    return sum;
  }

  void judge_token(std::size_t token, float found, Verdict& verdict) const {
    const auto vocab = static_cast<std::size_t>(vocab_);
    std::vector<double> logits(vocab);
    double magnitude = 0.0;  // of all products of a logit
    for (std::size_t column = 0; column < vocab; ++column) {
      const ExactSum sum = logit(token, column);
      logits[column] = sum.value;
      magnitude = std::max(magnitude, sum.magnitude);
    }
    const auto [least, largest] = std::ranges::minmax(logits);
    double sum = 0.0;
    for (const double one : logits) {
      sum += std::exp(one - largest);
    }
    const double largest_magnitude = std::max(std::abs(least), std::abs(largest));
    const double expected =
        largest + std::log(sum) - logits[static_cast<std::size_t>(targets_[token])];
    const double of_logits =
        2.0 * rounding_of(4.0 * (static_cast<double>(hidden_) + 16.0)) * magnitude;
    const double of_sum = rounding_of(2.0 * vocab_ + 32.0) + rounding_of(4) * largest_magnitude;
    const double of_last = rounding_of(4) * (2.0 * largest_magnitude + std::log(sum));
    verdict.compare("losses", token, double{found}, expected, of_logits + of_sum + of_last);
  }

  int tokens_;
  int vocab_;
  std::size_t hidden_;
  std::uint64_t seed_;
  std::vector<bf16> x_;       // (tokens, hidden)
  std::vector<bf16> weight_;  // (vocab, hidden)
  std::vector<int> targets_;  // (tokens)
};

}  // namespace

std::unique_ptr<Ladder> linear_cross_entropy_ladder() {
  return std::make_unique<LadderOf<LinearCrossEntropy>>();
}

}  // namespace ultra::ladders
