#include <algorithm>
#include <cmath>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/matmul/matmul_fp8/matmul_fp8.hpp"

namespace ultra::ladders {
namespace {

using simt::fp8_e4m3;

constexpr auto kGroup = static_cast<std::size_t>(kernels::matmul_fp8::kGroup);

std::string refuse_ragged_groups(const Sizes& sizes) {
  if (sizes[2] % kernels::matmul_fp8::kGroup == 0) {
    return {};
  }
  return fmt::format("depth is {}, expected a multiple of {}: as many elements share a scale",
                     sizes[2], kernels::matmul_fp8::kGroup);
}

std::string refuse_fp8(const Sizes& sizes) {
  if (std::string refusal = refuse_ragged_groups(sizes); !refusal.empty()) {
    return refusal;
  }
  return refuse_gpus_before(8, 9, "products of fp8");
}

// Sums are stored two by two.
std::string refuse_wgmma_of_fp8(const Sizes& sizes) {
  if (std::string refusal = refuse_ragged_groups(sizes); !refusal.empty()) {
    return refusal;
  }
  if (sizes[1] % 2 != 0) {
    return fmt::format("columns are {}, expected an even number. Hint: rung 1 takes any", sizes[1]);
  }
  return {};
}

std::vector<fp8_e4m3> to_fp8(const std::vector<float>& values) {
  std::vector<fp8_e4m3> rounded;
  rounded.reserve(values.size());
  for (const float value : values) {
    rounded.emplace_back(64.0F * value);  // as after quantization: a group's largest is near 448
  }
  return rounded;
}

// Positive, and different by factors.
std::vector<float> draw_scales(std::size_t count, std::uint64_t seed, const char* name) {
  std::vector<float> scales = normal_values(count, seed, name);
  for (float& scale : scales) {
    scale = std::exp2(scale) / 64.0F;
  }
  return scales;
}

class MatmulFp8 {
 public:
  using Problem = kernels::matmul_fp8::Problem;

  MatmulFp8(const Sizes& sizes, std::uint64_t seed)
      : sizes_(sizes),
        seed_(seed),
        columns_(static_cast<std::size_t>(sizes[1])),
        depth_(static_cast<std::size_t>(sizes[2])),
        groups_((depth_ + kGroup - 1) / kGroup),
        a_(to_fp8(normal_values(element_count({sizes[0], sizes[2]}), seed, "a"))),
        b_(to_fp8(normal_values(element_count({sizes[1], sizes[2]}), seed, "b"))),
        a_scales_(draw_scales(static_cast<std::size_t>(sizes[0]) * groups_, seed, "a_scales")),
        b_scales_(draw_scales((columns_ + kGroup - 1) / kGroup * groups_, seed, "b_scales")) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.rows = sizes_[0],
            .columns = sizes_[1],
            .depth = sizes_[2],
            .a = buffers.input("a", a_),
            .a_scales = buffers.input("a_scales", a_scales_),
            .b = buffers.input("b", b_),
            .b_scales = buffers.input("b_scales", b_scales_),
            .c = buffers.output<simt::bf16>("c", element_count({sizes_[0], sizes_[1]}))};
  }

  static LadderInfo describe() {
    return {.name = "matmul_fp8",
            .title = "c = a transpose(b) in fp8 (e4m3) with block scales, c in bf16",
            .dimensions = {{.name = "rows", .emulated = 40, .gpu = 8192},
                           {.name = "columns", .emulated = 136, .gpu = 8192},
                           {.name = "depth", .emulated = 384, .gpu = 8192}},
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::matmul_fp8;
    using simt::Executor;
    return RungTable<Problem>("matmul/matmul_fp8")
        .add("converted", "fp8 in memory, bf16 in the tensor cores", refuse_ragged_groups,
             []<Executor executor>(const auto&... a) { rungs_of::converted<executor>(a...); })
        .add("tensor_cores", "tensor cores multiply fp8; sums of 128 are promoted", refuse_fp8,
             []<Executor executor>(const auto&... a) { rungs_of::tensor_cores<executor>(a...); })
        .add_hopper("wgmma", "Hopper's products of fp8, promoted beside the other warpgroup's",
                    refuse_wgmma_of_fp8,
                    []<Executor executor>(const auto&... a) { rungs_of::wgmma<executor>(a...); })
        .rungs();
  }

  static Cost cost(const Sizes& sizes) {
    const double elements = (double(sizes[0]) + sizes[1]) * sizes[2];
    const double of_a = double(sizes[0]) * sizes[2] / kernels::matmul_fp8::kGroup;
    const double of_b =
        double((sizes[1] + kernels::matmul_fp8::kGroup - 1) / kernels::matmul_fp8::kGroup) *
        sizes[2] / kernels::matmul_fp8::kGroup;
    return {.operations = 2.0 * sizes[0] * sizes[1] * sizes[2],
            .least_bytes = elements + 4.0 * (of_a + of_b) + 2.0 * double(sizes[0]) * sizes[1]};
  }

  /// A group's sum is one of 128 products, twice gamma because tensor cores may cut off. On a GPU
  /// their sums of fp8 may keep as few as 14 bits (DeepSeek-V3, section 3.3.2): each of a group's
  /// four products of 32 loses at most 33 times 2^-13 of the largest term. The promotion is three
  /// operations for each group.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<simt::bf16> found = buffers.download(problem.c);
    const double of_tensor_cores =
        buffers.executor() == simt::Executor::kGpu ? 4.0 * 33.0 * 0x1p-13 : 0.0;
    Verdict verdict;
    for (const std::size_t index : sample(found.size(), kMostProducts / depth_ + 2, seed_)) {
      const std::size_t row = index / columns_;
      const std::size_t column = index % columns_;
      double expected = 0.0;
      double error = 0.0;
      for (std::size_t group = 0; group < groups_; ++group) {
        const double scale = double{a_scales_[row * groups_ + group]} *
                             double{b_scales_[column / kGroup * groups_ + group]};
        ExactSum sum;
        double largest = 0.0;
        for (std::size_t k = group * kGroup; k < (group + 1) * kGroup; ++k) {
          const double term = value(a_[row * depth_ + k]) * value(b_[column * depth_ + k]);
          sum.add(term);
          largest = std::max({largest, std::abs(term), std::abs(sum.value)});
        }
        expected += scale * sum.value;
        error += scale * (rounding_of(2.0 * (double(kGroup + groups_) + 8.0)) * sum.magnitude +
                          of_tensor_cores * largest);
      }
      verdict.compare("c", index, value_of(found[index]), expected, bf16_error(expected, error));
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostProducts = std::size_t{1} << 26;  // of the f64 computation

  static double value(fp8_e4m3 element) { return double{static_cast<float>(element)}; }

  Sizes sizes_;
  std::uint64_t seed_;
  std::size_t columns_;
  std::size_t depth_;
  std::size_t groups_;
  std::vector<fp8_e4m3> a_;      // (rows, depth)
  std::vector<fp8_e4m3> b_;      // (columns, depth)
  std::vector<float> a_scales_;  // (rows, groups)
  std::vector<float> b_scales_;  // (columns / kGroup, groups)
};

}  // namespace

std::unique_ptr<Ladder> matmul_fp8_ladder() { return std::make_unique<LadderOf<MatmulFp8>>(); }

}  // namespace ultra::ladders
