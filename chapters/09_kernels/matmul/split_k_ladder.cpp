#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/matmul/bf16_product.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/matmul/split_k/split_k.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;

std::string refuse_ragged_depth_of_parts(const Sizes& sizes) {
  return refuse_ragged_rows(sizes[2]);
}

class SplitK {
 public:
  using Problem = kernels::split_k::Problem;

  SplitK(const Sizes& sizes, std::uint64_t seed)
      : rows_(sizes[0]),
        columns_(sizes[1]),
        depth_(sizes[2]),
        blocks_(sizes[3]),
        seed_(seed),
        a_(to_bf16(normal_values(element_count({rows_, depth_}), seed, "a"))),
        b_(to_bf16(normal_values(element_count({columns_, depth_}), seed, "b"))) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.rows = rows_,
            .columns = columns_,
            .depth = depth_,
            .blocks = blocks_,
            .a = buffers.input("a", a_),
            .b = buffers.input("b", b_),
            .c = buffers.output<bf16>("c", element_count({rows_, columns_})),
            .scratch = buffers.scratch(
                "scratch", kernels::split_k::scratch_size(rows_, columns_, depth_, blocks_))};
  }

  /// 264 blocks: two on each of an H100's multiprocessors.
  static LadderInfo describe() {
    return {.name = "split_k",
            .title = "c = a transpose(b) in bf16 with few tiles and a long depth",
            .dimensions = {{.name = "rows", .emulated = 136, .gpu = 1280},
                           {.name = "columns", .emulated = 264, .gpu = 1280},
                           {.name = "depth", .emulated = 456, .gpu = 32768},
                           {.name = "blocks at a time", .emulated = 14, .gpu = 264}},
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::split_k;
    using simt::Executor;
    return RungTable<Problem>("matmul/split_k")
        .add("whole_depth", "a block for each tile", refuse_ragged_depth_of_parts,
             []<Executor executor>(const auto&... a) { rungs_of::whole_depth<executor>(a...); })
        .add("split", "equal parts of each tile's depth, added up by a second kernel",
             refuse_ragged_depth_of_parts,
             []<Executor executor>(const auto&... a) { rungs_of::split<executor>(a...); })
        .add("stream", "all steps of all tiles dealt out evenly (stream-K)",
             refuse_ragged_depth_of_parts,
             []<Executor executor>(const auto&... a) { rungs_of::stream<executor>(a...); })
        .rungs();
  }

  static Cost cost(const Sizes& sizes) {
    const double rows = sizes[0];
    const double columns = sizes[1];
    const double depth = sizes[2];
    return {.operations = 2.0 * rows * columns * depth,
            .least_bytes = 2.0 * (rows * depth + depth * columns + rows * columns)};
  }

  /// Parts of the depth are added up in fp32: as many more additions as there are blocks at most.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const auto depth = static_cast<std::size_t>(depth_);
    const auto columns = static_cast<std::size_t>(columns_);
    const auto rows_of = [&](std::size_t index) {
      return ProductRows{&a_[index / columns * depth], &b_[index % columns * depth]};
    };
    return judge_bf16_product(buffers.download(problem.c), depth, blocks_, rows_of, seed_);
  }

 private:
  int rows_;
  int columns_;
  int depth_;
  int blocks_;
  std::uint64_t seed_;
  std::vector<bf16> a_;  // (rows, depth)
  std::vector<bf16> b_;  // (columns, depth)
};

}  // namespace

std::unique_ptr<Ladder> split_k_ladder() { return std::make_unique<LadderOf<SplitK>>(); }

}  // namespace ultra::ladders
