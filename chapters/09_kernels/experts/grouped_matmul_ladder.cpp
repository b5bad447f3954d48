#include <algorithm>
#include <cmath>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/experts/routing.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/grouped_matmul/grouped_matmul.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::grouped_matmul;
using simt::bf16;

std::string refuse_ragged_depth(const Sizes& sizes) {
  if (sizes[3] % 8 == 0) {
    return {};
  }
  return fmt::format(
      "the depth is {}, expected a multiple of 8: rows of a and b must begin at multiples of 16 "
      "bytes",
      sizes[3]);
}

class GroupedMatmul {
 public:
  using Problem = rungs_of::Problem;

  GroupedMatmul(const Sizes& sizes, std::uint64_t seed)
      : experts_(sizes[0]),
        columns_(sizes[2]),
        depth_(sizes[3]),
        seed_(seed),
        begins_(begins_of(draw_experts({sizes[1], 1, experts_}, seed), experts_)),
        a_(to_bf16(normal_values(element_count({sizes[1], depth_}), seed, "a"))),
        b_(to_bf16(normal_values(element_count({experts_, columns_, depth_}), seed, "b"))) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.experts = experts_,
            .rows = begins_.back(),
            .columns = columns_,
            .depth = depth_,
            .begins = buffers.input("begins", begins_),
            .host_begins = begins_.data(),
            .a = buffers.input("a", a_),
            .b = buffers.input("b", b_),
            .c = buffers.output<bf16>("c", element_count({begins_.back(), columns_}))};
  }

  static LadderInfo describe() {
    return {.name = "grouped_matmul",
            .title = "c = a transpose(b) for each expert's rows of a, in bf16 on tensor cores",
            .dimensions = {{.name = "experts", .emulated = 5, .gpu = 64},
                           {.name = "rows", .emulated = 200, .gpu = 32768},
                           {.name = "columns", .emulated = 72, .gpu = 2816},
                           {.name = "depth", .emulated = 72, .gpu = 2048}},
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Side;
    return RungTable<Problem>("grouped_matmul")
        .add("launch_each", "a launch for each expert, whose rows the host must know",
             refuse_ragged_depth,
             []<Side side>(const auto&... a) { rungs_of::launch_each<side>(a...); })
        .add("one_launch", "one launch: a block looks up whose tile it has", refuse_ragged_depth,
             []<Side side>(const auto&... a) { rungs_of::one_launch<side>(a...); })
        .rungs();
  }

  static Cost cost(const Sizes& sizes) {
    const double experts = sizes[0];
    const double rows = sizes[1];
    const double columns = sizes[2];
    const double depth = sizes[3];
    return {.operations = 2.0 * rows * columns * depth,
            .least_bytes = 2.0 * (rows * depth + experts * depth * columns + rows * columns)};
  }

  /// As for the ladder matmul_bf16.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<bf16> c = buffers.download(problem.c);
    const auto depth = static_cast<std::size_t>(depth_);
    const auto columns = static_cast<std::size_t>(columns_);
    Verdict verdict;
    for (const std::size_t index : sample(c.size(), kMostProducts / depth, seed_)) {
      const std::size_t row = index / columns;
      const bf16* const left = &a_[row * depth];
      const bf16* const right = &b_[(expert_of(row) * columns + index % columns) * depth];
      ExactSum sum;
      for (std::size_t k = 0; k < depth; ++k) {
        sum.add(value_of(left[k]) * value_of(right[k]));
      }
      verdict.compare("c", index, value_of(c[index]), sum.value,
                      bf16_error(sum.value, rounding_of(4.0 * (depth_ + 16)) * sum.magnitude));
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostProducts = std::size_t{1} << 25;  // of the f64 computation

  [[nodiscard]] std::size_t expert_of(std::size_t row) const {
    const auto behind = std::ranges::upper_bound(begins_, static_cast<int>(row));
    return static_cast<std::size_t>(behind - begins_.begin()) - 1;
  }

  int experts_;
  int columns_;
  int depth_;
  std::uint64_t seed_;
  std::vector<int> begins_;  // (experts + 1)
  std::vector<bf16> a_;      // (rows, depth)
  std::vector<bf16> b_;      // (experts, columns, depth)
};

}  // namespace

std::unique_ptr<Ladder> grouped_matmul_ladder() {
  return std::make_unique<LadderOf<GroupedMatmul>>();
}

}  // namespace ultra::ladders
