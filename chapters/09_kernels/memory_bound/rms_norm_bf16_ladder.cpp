#include "chapters/09_kernels/ladders.hpp"

#include <cmath>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/rows/rms_norm_bf16/rms_norm_bf16.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;

class RmsNormBf16 {
 public:
  using Problem = kernels::rms_norm_bf16::Problem;

  RmsNormBf16(const Sizes& sizes, std::uint64_t seed)
      : rows_(static_cast<std::size_t>(sizes[0])),
        hidden_(static_cast<std::size_t>(sizes[1])),
        seed_(seed),
        x_(to_bf16(normal_values(rows_ * hidden_, seed, "x"))),
        residual_(to_bf16(normal_values(rows_ * hidden_, seed, "residual"))),
        weight_(to_bf16(normal_values(hidden_, seed, "weight"))) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.rows = static_cast<int>(rows_),
            .hidden = static_cast<int>(hidden_),
            .epsilon = kEpsilon,
            .x = buffers.input("x", x_),
            .residual = buffers.input("residual", residual_),
            .weight = buffers.input("weight", weight_),
            .h = buffers.output<bf16>("h", x_.size()),
            .y = buffers.output<bf16>("y", x_.size()),
            .reciprocal_rms = buffers.output("reciprocal_rms", rows_)};
  }

  static LadderInfo describe() {
    return {.name = "rms_norm_bf16",
            .title = "h = x + residual and y = RMSNorm(h) weight, in bf16",
            .dimensions = {{.name = "rows", .emulated = 8, .gpu = 16384},
                           {.name = "hidden", .emulated = 704, .gpu = 4096}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::rms_norm_bf16;
    using simt::Executor;
    return RungTable<Problem>("rows/rms_norm_bf16")
        .add("warp_per_row", "a warp per row, an element per lane; h is read back",
             []<Executor executor>(const auto&... a) { rungs_of::warp_per_row<executor>(a...); })
        .add("in_registers", "a block holds its row; accesses of 16 bytes", refuse_long_rows,
             []<Executor executor>(const auto&... a) { rungs_of::in_registers<executor>(a...); })
        .rungs();
  }

  /// Per element: the addition, square and sum, two multiplications.
  static Cost cost(const Sizes& sizes) {
    const double rows = sizes[0];
    const double hidden = sizes[1];
    return {.operations = 5.0 * rows * hidden,
            .least_bytes = 2.0 * (4.0 * rows * hidden + hidden) + 4.0 * rows,
            .written_bytes = 2.0 * 2.0 * rows * hidden + 4.0 * rows};
  }

  /// h is one addition in fp32, which rounds, and one more rounding. The norm is that of the h that
  /// was written: its terms are exact, and what remains is as for the ladder rms_norm, less the
  /// addition.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<bf16> h = buffers.download(problem.h);
    const std::vector<bf16> y = buffers.download(problem.y);
    const std::vector<float> reciprocal_rms = buffers.download(problem.reciprocal_rms);
    const auto n = static_cast<double>(hidden_);
    const double of_root = rounding_of((n + 2.0) / 2.0 + 4.0);
    const double of_y = rounding_of((n + 2.0) / 2.0 + 6.0);
    Verdict verdict;
    for (const std::size_t row : sample(rows_, kMostElements / hidden_ + 2, seed_)) {
      double squares = 0.0;
      for (std::size_t i = row * hidden_; i < (row + 1) * hidden_; ++i) {
        const double sum = value_of(x_[i]) + value_of(residual_[i]);
        verdict.compare("h", i, value_of(h[i]), sum,
                        bf16_error(sum, rounding_of(1) * std::abs(sum)));
        squares += value_of(h[i]) * value_of(h[i]);
      }
      const double root = 1.0 / std::sqrt(squares / n + double{kEpsilon});
      verdict.compare("reciprocal_rms", row, double{reciprocal_rms[row]}, root, of_root * root);
      for (std::size_t column = 0; column < hidden_; ++column) {
        const std::size_t i = row * hidden_ + column;
        const double expected = value_of(h[i]) * root * value_of(weight_[column]);
        verdict.compare("y", i, value_of(y[i]), expected,
                        bf16_error(expected, of_y * std::abs(expected)));
      }
    }
    return verdict;
  }

 private:
  static constexpr float kEpsilon = 1e-5F;                            // as in Llama
  static constexpr std::size_t kMostElements = std::size_t{1} << 23;  // of the f64 computation

  static std::string refuse_long_rows(const Sizes& sizes) {
    return ladders::refuse_long_rows(
        sizes[1], kernels::rms_norm_bf16::kLongestRow,
        {.unit = "", .name = "the registers of a block", .hint = "rung 1 does any length"});
  }

  std::size_t rows_;
  std::size_t hidden_;
  std::uint64_t seed_;
  std::vector<bf16> x_;         // (rows, hidden)
  std::vector<bf16> residual_;  // (rows, hidden)
  std::vector<bf16> weight_;    // (hidden)
};

}  // namespace

std::unique_ptr<Ladder> rms_norm_bf16_ladder() { return std::make_unique<LadderOf<RmsNormBf16>>(); }

}  // namespace ultra::ladders
