#include "chapters/09_kernels/ladders.hpp"

#include <cmath>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/rows/rms_norm_backward/rms_norm_backward.hpp"

namespace ultra::ladders {
namespace {

class RmsNormBackward {
 public:
  using Problem = kernels::rms_norm_backward::Problem;

  RmsNormBackward(const Sizes& sizes, std::uint64_t seed)
      : rows_(static_cast<std::size_t>(sizes[0])),
        hidden_(static_cast<std::size_t>(sizes[1])),
        seed_(seed),
        d_y_(normal_values(rows_ * hidden_, seed, "d_y")),
        x_(normal_values(rows_ * hidden_, seed, "x")),
        weight_(normal_values(hidden_, seed, "weight")),
        reciprocal_rms_(rows_) {
    constexpr double kEpsilon = 1e-5;
    for (std::size_t row = 0; row < rows_; ++row) {
      double squares = 0.0;
      for (std::size_t i = row * hidden_; i < (row + 1) * hidden_; ++i) {
        squares += double{x_[i]} * double{x_[i]};
      }
      reciprocal_rms_[row] =
          static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(hidden_) + kEpsilon));
    }
  }

  Problem problem(ProblemBuffers& buffers) const {
    return {.rows = static_cast<int>(rows_),
            .hidden = static_cast<int>(hidden_),
            .d_y = buffers.input("d_y", d_y_),
            .x = buffers.input("x", x_),
            .weight = buffers.input("weight", weight_),
            .reciprocal_rms = buffers.input("reciprocal_rms", reciprocal_rms_),
            .d_x = buffers.output("d_x", x_.size()),
            .d_weight = buffers.output("d_weight", hidden_),
            .partial_d_weight = buffers.scratch("partial_d_weight", partials() * hidden_)};
  }

  static LadderInfo describe() {
    return {.name = "rms_norm_backward",
            .title = "gradients of RMSNorm's input and weight, in fp32",
            .dimensions = {{.name = "rows", .emulated = 8, .gpu = 8192},
                           {.name = "hidden", .emulated = 704, .gpu = 4096}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::rms_norm_backward;
    using simt::Executor;
    return RungTable<Problem>("rows/rms_norm_backward")
        .add("thread_per_row", "one thread per row, atomics for d_weight",
             []<Executor executor>(const auto&... a) { rungs_of::thread_per_row<executor>(a...); })
        .add("warp_per_row", "one warp per row: neighbouring lanes, also of the atomics",
             []<Executor executor>(const auto&... a) { rungs_of::warp_per_row<executor>(a...); })
        .add("two_stages", "rows held in registers, partial sums of d_weight, no atomics",
             refuse_long_rows,
             []<Executor executor>(const auto&... a) { rungs_of::two_stages<executor>(a...); })
        .rungs();
  }

  /// Per element: for the dot product 3, for d_weight 3, for d_x 4.
  static Cost cost(const Sizes& sizes) {
    const double rows = sizes[0];
    const double hidden = sizes[1];
    return {.operations = 10.0 * rows * hidden,
            .least_bytes = 4.0 * (3.0 * rows * hidden + 2.0 * hidden + rows),
            .written_bytes = 4.0 * (rows * hidden + hidden)};
  }

  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    Verdict verdict;
    judge_d_x(buffers.download(problem.d_x), verdict);
    judge_d_weight(buffers.download(problem.d_weight), verdict);
    return verdict;
  }

 private:
  static constexpr std::size_t kMostElements = std::size_t{1} << 23;  // of each f64 computation

  static std::string refuse_long_rows(const Sizes& sizes) {
    return ladders::refuse_long_rows(
        sizes[1], kernels::rms_norm_backward::kLongestRow,
        {.unit = "", .name = "the registers of a block", .hint = "rung 2 does any length"});
  }

  [[nodiscard]] std::size_t partials() const {
    return static_cast<std::size_t>(
        kernels::rms_norm_backward::partials_of(static_cast<int>(rows_)));
  }

  // The dot product of n terms, each of two products, is off by gamma_{n+1} times the sum of their
  // magnitudes in any order (Higham 2002, section 3.5); three operations make the mean of it, and
  // three more lead to d_x. The other term has four.
  void judge_d_x(const std::vector<float>& d_x, Verdict& verdict) const {
    const auto n = static_cast<double>(hidden_);
    for (const std::size_t row : sample(rows_, kMostElements / hidden_ + 2, seed_)) {
      ExactSum dot;
      for (std::size_t column = 0; column < hidden_; ++column) {
        const std::size_t i = row * hidden_ + column;
        dot.add(double{d_y_[i]} * double{x_[i]} * double{weight_[column]});
      }
      const double r = reciprocal_rms_[row];
      for (std::size_t column = 0; column < hidden_; ++column) {
        const std::size_t i = row * hidden_ + column;
        const double scaled = double{d_y_[i]} * double{weight_[column]};
        const double expected = r * (scaled - double{x_[i]} * dot.value * r * r / n);
        const double tolerance =
            r * (rounding_of(4) * std::abs(scaled) +
                 rounding_of(n + 8) * std::abs(double{x_[i]}) * dot.magnitude * r * r / n);
        verdict.compare("d_x", i, double{d_x[i]}, expected, tolerance);
      }
    }
  }

  // A sum over the rows, in any order, of two products each.
  void judge_d_weight(const std::vector<float>& d_weight, Verdict& verdict) const {
    for (const std::size_t column : sample(hidden_, kMostElements / rows_ + 2, seed_)) {
      ExactSum sum;
      for (std::size_t row = 0; row < rows_; ++row) {
        const std::size_t i = row * hidden_ + column;
        sum.add(double{d_y_[i]} * double{x_[i]} * double{reciprocal_rms_[row]});
      }
      verdict.compare("d_weight", column, double{d_weight[column]}, sum.value,
                      rounding_of(static_cast<double>(rows_) + 2) * sum.magnitude);
    }
  }

  std::size_t rows_;
  std::size_t hidden_;
  std::uint64_t seed_;
  std::vector<float> d_y_;             // (rows, hidden)
  std::vector<float> x_;               // (rows, hidden)
  std::vector<float> weight_;          // (hidden)
  std::vector<float> reciprocal_rms_;  // (rows)
};

}  // namespace

std::unique_ptr<Ladder> rms_norm_backward_ladder() {
  return std::make_unique<LadderOf<RmsNormBackward>>();
}

}  // namespace ultra::ladders
