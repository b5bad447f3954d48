#include "chapters/09_kernels/ladders.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "common/tensor/philox.hpp"
#include "kernels/ladders/rows/softmax/softmax.hpp"

namespace ultra::ladders {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Elements far beyond what exp() can take in fp32, which ends at 88.8. One in eight is masked, as
// attention does it, by -infinity; the first of a row never is.
std::vector<float> masked_values(std::size_t rows, std::size_t columns, std::uint64_t seed) {
  constexpr float kMean = 100.0F;
  constexpr float kDeviation = 20.0F;
  constexpr std::uint64_t kElementsPerMask = 8;
  const PhiloxStream mask(seed, "mask");
  std::vector<float> values = normal_values(rows * columns, seed, "in");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_masked = i % columns != 0 && mask.below(i, kElementsPerMask) == 0;
    values[i] = is_masked ? kMasked : kMean + kDeviation * values[i];
  }
  return values;
}

std::string refuse_above(const Sizes& sizes, int most, const char* holder) {
  return refuse_long_rows(
      sizes[1], most,
      {.unit = " columns", .name = holder, .hint = "rung 6 takes rows of any length"});
}

std::string refusal_of_warp(const Sizes& sizes) {
  return refuse_above(sizes, kernels::softmax::kMostColumnsOfWarp, "the registers of a warp");
}

std::string refusal_of_block(const Sizes& sizes) {
  return refuse_above(sizes, kernels::softmax::kMostColumnsOfBlock, "the registers of a block");
}

class Softmax {
 public:
  using Problem = kernels::softmax::Problem;

  Softmax(const Sizes& sizes, std::uint64_t seed)
      : rows_(static_cast<std::size_t>(sizes[0])),
        columns_(static_cast<std::size_t>(sizes[1])),
        seed_(seed),
        in_(masked_values(rows_, columns_, seed)) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.rows = static_cast<int>(rows_),
            .columns = static_cast<int>(columns_),
            .in = buffers.input("in", in_),
            .out = buffers.output("out", in_.size())};
  }

  static LadderInfo describe() {
    return {.name = "softmax",
            .title = "softmax of every row in fp32",
            .dimensions = {{.name = "rows", .emulated = 36, .gpu = 32768},
                           {.name = "columns", .emulated = 200, .gpu = 2048}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::softmax;
    using simt::Executor;
    return RungTable<Problem>("rows/softmax")
        .add("thread_per_row", "one thread per row, three passes",
             []<Executor executor>(const auto&... a) { rungs_of::thread_per_row<executor>(a...); })
        .add("warp_per_row", "a warp per row: the lanes read neighbours and reduce by shuffles",
             []<Executor executor>(const auto&... a) { rungs_of::warp_per_row<executor>(a...); })
        .add_exercise("09.7", "online_softmax.cu", "online",
                      "largest element and sum in one pass: two reads instead of three",
                      []<Executor executor>(const auto&... a) { rungs_of::online<executor>(a...); })
        .add("registers", "the row stays in the registers of its warp: one read, 16 bytes per lane",
             refusal_of_warp,
             []<Executor executor>(const auto&... a) { rungs_of::registers<executor>(a...); })
        .add("block_per_row", "a block per row: registers for long rows", refusal_of_block,
             []<Executor executor>(const auto&... a) { rungs_of::block_per_row<executor>(a...); })
        .add("long_rows", "a block per row of any length: online in vectors, then a second read",
             []<Executor executor>(const auto&... a) { rungs_of::long_rows<executor>(a...); })
        .rungs();
  }

  /// A subtraction, an exponential, a comparison, an addition and a division per element.
  static Cost cost(const Sizes& sizes) {
    const double elements = static_cast<double>(sizes[0]) * sizes[1];
    return {.operations = 5.0 * elements,
            .least_bytes = 2.0 * 4.0 * elements,
            .written_bytes = 4.0 * elements};
  }

  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<float> out = buffers.download(problem.out);
    Verdict verdict;
    const std::size_t most_rows = std::max<std::size_t>(1, kMostElements / columns_);
    for (const std::size_t row : sample(rows_, most_rows, seed_)) {
      compare_row(row, out, verdict);
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostElements = std::size_t{1} << 24;  // of the f64 computation

  /// Roundings, counted for the rung with the most, the online one. A term of the sum: 2 units in
  /// the last place for its exponential (CUDA C++ Programming Guide, mathematical functions), each
  /// at most 2 roundings; then per element that follows, a rescaling (4 for the exponential, 1 for
  /// the product) and an addition. The numerator's exponential and the quotient: less than 16.
  /// Exponents: a difference d is off by |d| u, and so is its exponential, relatively; the
  /// differences of all rescalings of a term add up to the row's range at most, and so does the
  /// numerator's. Below the smallest normal number, results are off by no more than that.
  void compare_row(std::size_t row, const std::vector<float>& out, Verdict& verdict) const {
    constexpr double kSmallestNormal = 0x1p-126;
    const std::span<const float> x = std::span(in_).subspan(row * columns_, columns_);
    const double largest = double{std::ranges::max(x)};
    double sum = 0.0;
    double range = 0.0;
    for (const float value : x) {
      sum += std::exp(double{value} - largest);
      range = value == kMasked ? range : std::max(range, largest - double{value});
    }
    const double roundings = 6.0 * static_cast<double>(columns_) + 16.0 + 2.0 * range;
    for (std::size_t column = 0; column < columns_; ++column) {
      const double expected = std::exp(double{x[column]} - largest) / sum;
      const std::size_t index = row * columns_ + column;
      verdict.compare("out", index, double{out[index]}, expected,
                      rounding_of(roundings) * expected + kSmallestNormal);
    }
  }

  std::size_t rows_;
  std::size_t columns_;
  std::uint64_t seed_;
  std::vector<float> in_;  // (rows, columns)
};

}  // namespace

std::unique_ptr<Ladder> softmax_ladder() { return std::make_unique<LadderOf<Softmax>>(); }

}  // namespace ultra::ladders
