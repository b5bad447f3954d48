#include <algorithm>
#include <cmath>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/elements/quantize_fp8/quantize_fp8.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;
using simt::fp8_e4m3;

std::string refuse_ragged_groups(const Sizes& sizes) {
  if (sizes[1] % kernels::quantize_fp8::kGroup == 0) {
    return {};
  }
  return fmt::format("there are {} columns, expected a multiple of {}: as many share a scale",
                     sizes[1], kernels::quantize_fp8::kGroup);
}

class QuantizeFp8 {
 public:
  using Problem = kernels::quantize_fp8::Problem;

  QuantizeFp8(const Sizes& sizes, std::uint64_t seed)
      : rows_(sizes[0]),
        columns_(sizes[1]),
        seed_(seed),
        x_(to_bf16(normal_values(element_count(sizes), seed, "x"))) {
    // The first group is all zeros, every third one has an outlier.
    std::fill_n(x_.begin(), std::min(x_.size(), kGroup), bf16(0.0F));
    for (std::size_t i = kGroup + 5; i < x_.size(); i += 3 * kGroup) {
      x_[i] = bf16(1000.0F);
    }
  }

  Problem problem(ProblemBuffers& buffers) const {
    return {.rows = rows_,
            .columns = columns_,
            .x = buffers.input("x", x_),
            .quantized = buffers.output<fp8_e4m3>("quantized", x_.size()),
            .scales = buffers.output("scales", x_.size() / kGroup)};
  }

  static LadderInfo describe() {
    return {.name = "quantize_fp8",
            .title = "bf16 to fp8 (e4m3) with a scale for each 128 elements",
            .dimensions = {{.name = "rows", .emulated = 7, .gpu = 16384},
                           {.name = "columns", .emulated = 384, .gpu = 7168}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::quantize_fp8;
    using simt::Executor;
    return RungTable<Problem>("elements/quantize_fp8")
        .add("two_kernels", "scales first, a thread per group; then elements", refuse_ragged_groups,
             []<Executor executor>(const auto&... a) { rungs_of::two_kernels<executor>(a...); })
        .add("warp_per_group", "a warp per group, in one kernel: x is read once",
             refuse_ragged_groups,
             []<Executor executor>(const auto&... a) { rungs_of::warp_per_group<executor>(a...); })
        .add("vectorised", "16 lanes per group, 16 bytes a lane", refuse_ragged_groups,
             []<Executor executor>(const auto&... a) { rungs_of::vectorised<executor>(a...); })
        .rungs();
  }

  /// Per element: a comparison, a division.
  static Cost cost(const Sizes& sizes) {
    const double elements = static_cast<double>(sizes[0]) * sizes[1];
    const double written = elements + 4.0 * elements / kernels::quantize_fp8::kGroup;
    return {.operations = 2.0 * elements,
            .least_bytes = 2.0 * elements + written,
            .written_bytes = written};
  }

  /// The scale is one division. The quotient is another one, by that scale; then it is rounded to 4
  /// significant bits, or below 2^-6 to a multiple of 2^-9.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<fp8_e4m3> found = buffers.download(problem.quantized);
    const std::vector<float> scales = buffers.download(problem.scales);
    Verdict verdict;
    for (const std::size_t group : sample(scales.size(), kMostElements / kGroup, seed_)) {
      double largest = 0.0;
      for (std::size_t i = group * kGroup; i < (group + 1) * kGroup; ++i) {
        largest = std::max(largest, std::abs(value_of(x_[i])));
      }
      const double scale = largest == 0.0 ? 1.0 : largest / double{kernels::quantize_fp8::kLargest};
      verdict.compare("scales", group, double{scales[group]}, scale, rounding_of(1) * scale);
      for (std::size_t i = group * kGroup; i < (group + 1) * kGroup; ++i) {
        const double expected = value_of(x_[i]) / scale;
        const double of_fp8 = std::max(std::abs(expected) * 0x1p-4, 0x1p-10);
        verdict.compare("quantized", i, double{static_cast<float>(found[i])}, expected,
                        of_fp8 + rounding_of(2) * std::abs(expected));
      }
    }
    return verdict;
  }

 private:
  static constexpr auto kGroup = static_cast<std::size_t>(kernels::quantize_fp8::kGroup);
  static constexpr std::size_t kMostElements = std::size_t{1} << 22;  // of the f64 computation

  int rows_;
  int columns_;
  std::uint64_t seed_;
  std::vector<bf16> x_;  // (rows, columns)
};

}  // namespace

std::unique_ptr<Ladder> quantize_fp8_ladder() { return std::make_unique<LadderOf<QuantizeFp8>>(); }

}  // namespace ultra::ladders
