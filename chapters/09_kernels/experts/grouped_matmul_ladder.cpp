#include <algorithm>
#include <cmath>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/experts/routing.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/matmul/bf16_product.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/matmul/grouped_matmul/grouped_matmul.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;

std::string refuse_ragged_depth_of_experts(const Sizes& sizes) {
  return refuse_ragged_rows(sizes[3]);
}

class GroupedMatmul {
 public:
  using Problem = kernels::grouped_matmul::Problem;

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
    namespace rungs_of = kernels::grouped_matmul;
    using simt::Executor;
    return RungTable<Problem>("matmul/grouped_matmul")
        .add("launch_each", "a launch for each expert, whose rows the host must know",
             refuse_ragged_depth_of_experts,
             []<Executor executor>(const auto&... a) { rungs_of::launch_each<executor>(a...); })
        .add("one_launch", "one launch: a block looks up whose tile it has",
             refuse_ragged_depth_of_experts,
             []<Executor executor>(const auto&... a) { rungs_of::one_launch<executor>(a...); })
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

  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const auto depth = static_cast<std::size_t>(depth_);
    const auto columns = static_cast<std::size_t>(columns_);
    const auto rows_of = [&](std::size_t index) {
      const std::size_t row = index / columns;
      return ProductRows{&a_[row * depth],
                         &b_[(expert_of(row) * columns + index % columns) * depth]};
    };
    return judge_bf16_product(buffers.download(problem.c), depth, 0, rows_of, seed_);
  }

 private:
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
