#include <algorithm>
#include <cmath>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "common/tensor/philox.hpp"
#include "kernels/ladders/rows/linear_cross_entropy_backward/linear_cross_entropy_backward.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;

std::string refuse_ragged(const Sizes& sizes) {
  if (sizes[1] % 8 == 0 && sizes[2] % 8 == 0) {
    return {};
  }
  return fmt::format(
      "vocab is {} and hidden {}, expected multiples of 8: rows of all matrices must begin at "
      "multiples of 16 bytes. Hint: pad the vocabulary",
      sizes[1], sizes[2]);
}

class LinearCrossEntropyBackward {
 public:
  using Problem = kernels::linear_cross_entropy_backward::Problem;

  LinearCrossEntropyBackward(const Sizes& sizes, std::uint64_t seed)
      : tokens_(static_cast<std::size_t>(sizes[0])),
        vocab_(static_cast<std::size_t>(sizes[1])),
        hidden_(static_cast<std::size_t>(sizes[2])),
        seed_(seed),
        x_(to_bf16(normal_values(tokens_ * hidden_, seed, "x"))),
        weight_(to_bf16(small_weights(vocab_, hidden_, seed))),
        lse_(normal_values(tokens_, seed, "lse")) {
    const PhiloxStream stream(seed, "targets");
    for (std::size_t token = 0; token < tokens_; ++token) {
      targets_.push_back(static_cast<int>(stream.below(token, vocab_)));
      // The backward pass takes it as it comes: near the one of standard normal logits.
      lse_[token] = 0.1F * lse_[token] + std::log(static_cast<float>(vocab_)) + 0.5F;
    }
  }

  Problem problem(ProblemBuffers& buffers) const {
    return {.tokens = static_cast<int>(tokens_),
            .vocab = static_cast<int>(vocab_),
            .hidden = static_cast<int>(hidden_),
            .scale = scale(),
            .x = buffers.input("x", x_),
            .weight = buffers.input("weight", weight_),
            .targets = buffers.input("targets", targets_),
            .lse = buffers.input("lse", lse_),
            .d_logits = buffers.scratch<bf16>("d_logits", tokens_ * vocab_),
            .d_x = buffers.output<bf16>("d_x", tokens_ * hidden_),
            .d_weight = buffers.output("d_weight", vocab_ * hidden_)};
  }

  static LadderInfo describe() {
    return {.name = "linear_cross_entropy_backward",
            .title = "gradients of x and weight of a linear layer's cross entropy, in bf16",
            .dimensions = {{.name = "tokens", .emulated = 150, .gpu = 8192},
                           {.name = "vocab", .emulated = 200, .gpu = 128256},
                           {.name = "hidden", .emulated = 40, .gpu = 4096}},
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::linear_cross_entropy_backward;
    using simt::Executor;
    return RungTable<Problem>("rows/linear_cross_entropy_backward")
        .add("materialized", "the gradients of all logits in memory, then two products",
             refuse_ragged,
             []<Executor executor>(const auto&... a) { rungs_of::materialized<executor>(a...); })
        .add("chunked", "those of a chunk of tokens at a time, in the same memory", refuse_ragged,
             []<Executor executor>(const auto&... a) { rungs_of::chunked<executor>(a...); })
        .rungs();
  }

  /// Three products; x, weight, targets and lse are read, two gradients written.
  static Cost cost(const Sizes& sizes) {
    const double tokens = sizes[0];
    const double vocab = sizes[1];
    const double hidden = sizes[2];
    return {.operations = 6.0 * tokens * vocab * hidden,
            .least_bytes = 2.0 * (tokens + vocab) * hidden + 8.0 * tokens + 2.0 * tokens * hidden +
                           4.0 * vocab * hidden};
  }

  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<bf16> d_x = buffers.download(problem.d_x);
    const std::vector<float> d_weight = buffers.download(problem.d_weight);
    Verdict verdict;
    for (const std::size_t token : sample(tokens_, kMostProducts / (vocab_ * hidden_) + 2, seed_)) {
      Row row(hidden_, vocab_);
      for (std::size_t column = 0; column < vocab_; ++column) {
        row.add(d_logit(token, column), &weight_[column * hidden_]);
      }
      for (std::size_t k = 0; k < hidden_; ++k) {
        verdict.compare("d_x", token * hidden_ + k, value_of(d_x[token * hidden_ + k]),
                        row.values[k], bf16_error(row.values[k], row.errors[k]));
      }
    }
    for (const std::size_t column :
         sample(vocab_, kMostProducts / (tokens_ * hidden_) + 2, seed_)) {
      Row row(hidden_, tokens_);
      for (std::size_t token = 0; token < tokens_; ++token) {
        row.add(d_logit(token, column), &x_[token * hidden_]);
      }
      for (std::size_t k = 0; k < hidden_; ++k) {
        verdict.compare("d_weight", column * hidden_ + k, double{d_weight[column * hidden_ + k]},
                        row.values[k], row.errors[k]);
      }
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostProducts = std::size_t{1} << 26;  // of the f64 computation

  struct Approximation {
    double value;
    double error;
  };

  // A row of a gradient, and how far a rung's can be off: its terms' errors, and twice gamma of
  // their number, because tensor cores may cut off, and additions to memory.
  struct Row {
    Row(std::size_t length, std::size_t terms)
        : relative(rounding_of(4.0 * (static_cast<double>(terms) + 16.0))),
          values(length),
          errors(length) {}

    void add(const Approximation& factor, const bf16* elements) {
      const double error = factor.error + relative * (std::abs(factor.value) + factor.error);
      for (std::size_t k = 0; k < values.size(); ++k) {
        values[k] += factor.value * value_of(elements[k]);
        errors[k] += error * std::abs(value_of(elements[k]));
      }
    }

    double relative;
    std::vector<double> values;
    std::vector<double> errors;
  };

  [[nodiscard]] float scale() const { return 1.0F / static_cast<float>(tokens_); }

  // As a model begins with: logits are about as large as a standard normal number.
  static std::vector<float> small_weights(std::size_t vocab, std::size_t hidden,
                                          std::uint64_t seed) {
    std::vector<float> weights = normal_values(vocab * hidden, seed, "weight");
    for (float& weight : weights) {
      weight /= std::sqrt(static_cast<float>(hidden));
    }
    return weights;
  }

  // A logit is off as in linear_cross_entropy; that, the rounding of the difference to lse and the
  // exponential (2 ulp) are relative errors of the share. Then a difference, a product, and the
  // rounding to bf16 before it is multiplied.
  [[nodiscard]] Approximation d_logit(std::size_t token, std::size_t column) const {
    ExactSum logit;
    for (std::size_t k = 0; k < hidden_; ++k) {
      logit.add(value_of(x_[token * hidden_ + k]) * value_of(weight_[column * hidden_ + k]));
    }
    const double lse = double{lse_[token]};
    const double share = std::exp(logit.value - lse);
    const double of_logit =
        2.0 * rounding_of(4.0 * (static_cast<double>(hidden_) + 16.0)) * logit.magnitude +
        rounding_of(2.0) * (std::abs(logit.value) + std::abs(lse));
    const double share_error = share * (std::expm1(of_logit) + rounding_of(8.0));
    const bool is_target = static_cast<std::size_t>(targets_[token]) == column;
    const double value = double{scale()} * (share - (is_target ? 1.0 : 0.0));
    const double error = double{scale()} * share_error + rounding_of(4.0) * std::abs(value);
    return {.value = value, .error = bf16_error(value, error)};
  }

  std::size_t tokens_;
  std::size_t vocab_;
  std::size_t hidden_;
  std::uint64_t seed_;
  std::vector<bf16> x_;       // (tokens, hidden)
  std::vector<bf16> weight_;  // (vocab, hidden)
  std::vector<float> lse_;    // (tokens)
  std::vector<int> targets_;  // (tokens)
};

}  // namespace

std::unique_ptr<Ladder> linear_cross_entropy_backward_ladder() {
  return std::make_unique<LadderOf<LinearCrossEntropyBackward>>();
}

}  // namespace ultra::ladders
