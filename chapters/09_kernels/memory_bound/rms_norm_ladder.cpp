#include "chapters/09_kernels/ladders.hpp"

#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/rows/rms_norm/rms_norm.hpp"

namespace ultra::ladders {
namespace {

class RmsNorm {
 public:
  using Problem = kernels::rms_norm::Problem;

  RmsNorm(const Sizes& sizes, std::uint64_t seed)
      : rows_(static_cast<std::size_t>(sizes[0])),
        hidden_(static_cast<std::size_t>(sizes[1])),
        seed_(seed),
        x_(normal_values(rows_ * hidden_, seed, "x")),
        residual_(normal_values(rows_ * hidden_, seed, "residual")),
        weight_(normal_values(hidden_, seed, "weight")) {
    // Every other row is so small that epsilon counts: as large as the mean of its squares.
    for (std::size_t row = 1; row < rows_; row += 2) {
      for (std::size_t i = row * hidden_; i < (row + 1) * hidden_; ++i) {
        x_[i] *= 0x1p-9F;
        residual_[i] *= 0x1p-9F;
      }
    }
  }

  Problem problem(ProblemBuffers& buffers) const {
    return {.rows = static_cast<int>(rows_),
            .hidden = static_cast<int>(hidden_),
            .epsilon = kEpsilon,
            .x = buffers.input("x", x_),
            .residual = buffers.input("residual", residual_),
            .weight = buffers.input("weight", weight_),
            .h = buffers.output("h", x_.size()),
            .y = buffers.output("y", x_.size()),
            .reciprocal_rms = buffers.output("reciprocal_rms", rows_)};
  }

  static LadderInfo describe() {
    return {.name = "rms_norm",
            .title = "h = x + residual and y = RMSNorm(h) weight, in fp32",
            .dimensions = {{.name = "rows", .emulated = 8, .gpu = 8192},
                           {.name = "hidden", .emulated = 704, .gpu = 4096}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::rms_norm;
    using simt::Executor;
    return RungTable<Problem>("rows/rms_norm")
        .add("thread_per_row", "an addition kernel, then one thread per row",
             []<Executor executor>(const auto&... a) { rungs_of::thread_per_row<executor>(a...); })
        .add("warp_per_row", "one warp per row: neighbouring lanes, sums by shuffles",
             []<Executor executor>(const auto&... a) { rungs_of::warp_per_row<executor>(a...); })
        .add("vectorised", "accesses of 16 bytes: a quarter of the requests",
             []<Executor executor>(const auto&... a) { rungs_of::vectorised<executor>(a...); })
        .add("in_registers", "a block holds its row in registers: h is read once", refuse_long_rows,
             []<Executor executor>(const auto&... a) { rungs_of::in_registers<executor>(a...); })
        .add_exercise("09.6", "fused_rms_norm.cu", "fused",
                      "the addition in the same kernel: h is written and never read",
                      refuse_long_rows,
                      []<Executor executor>(const auto&... a) { rungs_of::fused<executor>(a...); })
        .rungs();
  }

  /// Per element: the addition, square and sum, two multiplications.
  static Cost cost(const Sizes& sizes) {
    const double rows = sizes[0];
    const double hidden = sizes[1];
    return {.operations = 5.0 * rows * hidden,
            .least_bytes = 4.0 * (4.0 * rows * hidden + hidden + rows),
            .written_bytes = 4.0 * (2.0 * rows * hidden + rows)};
  }

  /// The squares of n sums, each rounded (2 u of the square), multiplied (u) and added in any order
  /// (n - 1), all positive: gamma_{n+2} (Higham 2002, section 3.5). The division and epsilon add 2,
  /// the root halves them; rsqrtf is off by 2 ulp, at most 4 u (CUDA C++ Programming Guide,
  /// mathematical functions). y has two more products and the rounding of h.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<float> h = buffers.download(problem.h);
    const std::vector<float> y = buffers.download(problem.y);
    const std::vector<float> reciprocal_rms = buffers.download(problem.reciprocal_rms);
    const auto n = static_cast<double>(hidden_);
    const double of_root = rounding_of((n + 4.0) / 2.0 + 4.0);
    const double of_y = rounding_of((n + 4.0) / 2.0 + 7.0);
    Verdict verdict;
    for (const std::size_t row : sample(rows_, kMostElements / hidden_ + 2, seed_)) {
      double squares = 0.0;
      for (std::size_t i = row * hidden_; i < (row + 1) * hidden_; ++i) {
        const double sum = double{x_[i]} + double{residual_[i]};
        verdict.compare("h", i, double{h[i]}, sum, rounding_of(1) * std::abs(sum));
        squares += sum * sum;
      }
      const double root = 1.0 / std::sqrt(squares / n + double{kEpsilon});
      verdict.compare("reciprocal_rms", row, double{reciprocal_rms[row]}, root, of_root * root);
      for (std::size_t column = 0; column < hidden_; ++column) {
        const std::size_t i = row * hidden_ + column;
        const double expected =
            (double{x_[i]} + double{residual_[i]}) * root * double{weight_[column]};
        verdict.compare("y", i, double{y[i]}, expected, of_y * std::abs(expected));
      }
    }
    return verdict;
  }

 private:
  static constexpr float kEpsilon = 1e-5F;                            // as in Llama
  static constexpr std::size_t kMostElements = std::size_t{1} << 23;  // of the f64 computation

  static std::string refuse_long_rows(const Sizes& sizes) {
    return ladders::refuse_long_rows(
        sizes[1], kernels::rms_norm::kLongestRow,
        {.unit = "", .name = "the registers of a block", .hint = "rung 3 does any length"});
  }

  std::size_t rows_;
  std::size_t hidden_;
  std::uint64_t seed_;
  std::vector<float> x_;         // (rows, hidden)
  std::vector<float> residual_;  // (rows, hidden)
  std::vector<float> weight_;    // (hidden)
};

}  // namespace

std::unique_ptr<Ladder> rms_norm_ladder() { return std::make_unique<LadderOf<RmsNorm>>(); }

}  // namespace ultra::ladders
