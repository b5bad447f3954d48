#include "chapters/09_kernels/ladders.hpp"

#include <fmt/format.h>

#include <cmath>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/matmul/bf16_product.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;

// The copies of 16 bytes need rows that begin at multiples of 16 bytes.
std::string refuse_ragged_depth(const Sizes& sizes) {
  return refuse_ragged_rows(sizes[2], ". Hint: rungs 1 to 4 take any depth");
}

// TMA needs that of c, too.
std::string refuse_for_hopper(const Sizes& sizes) {
  if (sizes[1] % 8 != 0 || sizes[2] % 8 != 0) {
    return fmt::format(
        "columns x depth are {} x {}, expected multiples of 8: TMA's rows begin at multiples of 16 "
        "bytes. Hint: rungs 1 to 4 take any shape",
        sizes[1], sizes[2]);
  }
  return {};
}

class MatmulBf16 {
 public:
  using Problem = kernels::matmul_bf16::Problem;

  MatmulBf16(const Sizes& sizes, std::uint64_t seed)
      : rows_(sizes[0]),
        columns_(sizes[1]),
        depth_(sizes[2]),
        seed_(seed),
        a_(to_bf16(normal_values(element_count({rows_, depth_}), seed, "a"))),
        b_(to_bf16(normal_values(element_count({columns_, depth_}), seed, "b"))) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.rows = rows_,
            .columns = columns_,
            .depth = depth_,
            .a = buffers.input("a", a_),
            .b = buffers.input("b", b_),
            .c = buffers.output<bf16>("c", element_count({rows_, columns_}))};
  }

  static LadderInfo describe() {
    return {.name = "matmul_bf16",
            .title = "c = a transpose(b) in bf16, sums in fp32, on tensor cores",
            .dimensions = {{.name = "rows", .emulated = 96, .gpu = 8192},
                           {.name = "columns", .emulated = 96, .gpu = 8192},
                           {.name = "depth", .emulated = 96, .gpu = 8192}},
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::matmul_bf16;
    using simt::Executor;
    return RungTable<Problem>("matmul/matmul_bf16")
        .add("cuda_cores", "no tensor cores: 8 x 8 elements per thread, in fp32",
             []<Executor executor>(const auto&... a) { rungs_of::cuda_cores<executor>(a...); })
        .add("wmma", "tensor cores through tiles of 16 x 16",
             []<Executor executor>(const auto&... a) { rungs_of::wmma<executor>(a...); })
        .add("mma_padded", "mma.sync, registers loaded from padded rows",
             []<Executor executor>(const auto&... a) { rungs_of::mma_padded<executor>(a...); })
        .add("ldmatrix_swizzled", "four matrices per load, from swizzled rows",
             []<Executor executor>(const auto&... a) {
               rungs_of::ldmatrix_swizzled<executor>(a...);
             })
        .add("multistage", "copies in the background, three stages deep", refuse_ragged_depth,
             []<Executor executor>(const auto&... a) { rungs_of::multistage<executor>(a...); })
        .add("wide_warp_tile", "64 x 64 elements per warp, operands loaded ahead",
             refuse_ragged_depth,
             []<Executor executor>(const auto&... a) { rungs_of::wide_warp_tile<executor>(a...); })
        .add_hopper(
            "wgmma_tma", "one warpgroup multiplies 64 x 64 tiles that TMA brings",
            refuse_for_hopper,
            []<Executor executor>(const auto&... a) { rungs_of::wgmma_tma<executor>(a...); })
        .add_hopper(
            "wgmma_128", "tiles of 128 x 128: half the traffic", refuse_for_hopper,
            []<Executor executor>(const auto&... a) { rungs_of::wgmma_128<executor>(a...); })
        .add_hopper("producer_consumer",
                    "one warpgroup fetches ahead into a ring, the other multiplies",
                    refuse_for_hopper,
                    []<Executor executor>(const auto&... a) {
                      rungs_of::producer_consumer<executor>(a...);
                    })
        .add_hopper(
            "two_consumers", "128 x 256 on two warpgroups, registers moved to where they are used",
            refuse_for_hopper,
            []<Executor executor>(const auto&... a) { rungs_of::two_consumers<executor>(a...); })
        .add_hopper(
            "persistent", "blocks that stay, tiles in the order that the cache likes",
            refuse_for_hopper,
            []<Executor executor>(const auto&... a) { rungs_of::persistent<executor>(a...); })
        .add_hopper("cluster_multicast", "two blocks fetch b once for both; c leaves through TMA",
                    refuse_for_hopper,
                    []<Executor executor>(const auto&... a) {
                      rungs_of::cluster_multicast<executor>(a...);
                    })
        .rungs();
  }

  static Cost cost(const Sizes& sizes) {
    const double rows = sizes[0];
    const double columns = sizes[1];
    const double depth = sizes[2];
    return {.operations = 2.0 * rows * columns * depth,
            .least_bytes = 2.0 * (rows * depth + depth * columns + rows * columns)};
  }

  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const auto depth = static_cast<std::size_t>(depth_);
    const auto columns = static_cast<std::size_t>(columns_);
    const auto rows_of = [&](std::size_t index) {
      return ProductRows{&a_[index / columns * depth], &b_[index % columns * depth]};
    };
    return judge_bf16_product(buffers.download(problem.c), depth, 0, rows_of, seed_);
  }

 private:
  int rows_;
  int columns_;
  int depth_;
  std::uint64_t seed_;
  std::vector<bf16> a_;  // (rows, depth)
  std::vector<bf16> b_;  // (columns, depth)
};

}  // namespace

std::unique_ptr<Ladder> matmul_bf16_ladder() { return std::make_unique<LadderOf<MatmulBf16>>(); }

}  // namespace ultra::ladders
