#include "chapters/09_kernels/ladders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/matmul/matmul_fp32/matmul_fp32.hpp"

namespace ultra::ladders {
namespace {

class MatmulFp32 {
 public:
  using Problem = kernels::matmul_fp32::Problem;

  MatmulFp32(const Sizes& sizes, std::uint64_t seed)
      : rows_(sizes[0]),
        columns_(sizes[1]),
        depth_(sizes[2]),
        seed_(seed),
        a_(normal_values(element_count({rows_, depth_}), seed, "a")),
        b_(normal_values(element_count({depth_, columns_}), seed, "b")) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.rows = rows_,
            .columns = columns_,
            .depth = depth_,
            .a = buffers.input("a", a_),
            .b = buffers.input("b", b_),
            .c = buffers.output("c", element_count({rows_, columns_}))};
  }

  static LadderInfo describe() {
    return {.name = "matmul_fp32",
            .title = "c = a b in fp32 on CUDA cores",
            .dimensions = {{.name = "rows", .emulated = 60, .gpu = 4096},
                           {.name = "columns", .emulated = 132, .gpu = 4096},
                           {.name = "depth", .emulated = 40, .gpu = 4096}},
            .limit = Limit::kFp32};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::matmul_fp32;
    using simt::Executor;
    return RungTable<Problem>("matmul/matmul_fp32")
        .add("naive", "one thread per element, the lanes of a warp in one column", refusal,
             []<Executor executor>(const auto&... a) { rungs_of::naive<executor>(a...); })
        .add_exercise(
            "09.1", "coalesced_matmul.cu", "coalesced",
            "the lanes of a warp in one row: neighbours load neighbours", refusal,
            []<Executor executor>(const auto&... a) { rungs_of::coalesced<executor>(a...); })
        .add_exercise("09.2", "tiled_matmul.cu", "tiled",
                      "tiles of a and b in shared memory: 2 loads from global memory per 32",
                      refusal,
                      []<Executor executor>(const auto&... a) { rungs_of::tiled<executor>(a...); })
        .add_exercise(
            "09.3", "coarsened_matmul.cu", "coarsened",
            "eight rows of c a thread: an element of b stays in a register", refusal,
            []<Executor executor>(const auto&... a) { rungs_of::coarsened<executor>(a...); })
        .add("register_tile", "8 x 8 of c a thread: 16 loads for 64 multiply-adds", refusal,
             []<Executor executor>(const auto&... a) { rungs_of::register_tile<executor>(a...); })
        .add("vectorised", "four floats per access, the tile of a transposed for it", refusal,
             []<Executor executor>(const auto&... a) { rungs_of::vectorised<executor>(a...); })
        .add("warp_tile", "64 x 64 of c a warp, 16 x 8 a thread: fewer different floats per load",
             refusal,
             []<Executor executor>(const auto&... a) { rungs_of::warp_tile<executor>(a...); })
        .add("pipelined", "cp.async: four tiles on their way or in use", refusal,
             []<Executor executor>(const auto&... a) { rungs_of::pipelined<executor>(a...); })
        .add("large_tile",
             "128 x 256 of c a block, the next registers loaded during multiplication", refusal,
             []<Executor executor>(const auto&... a) { rungs_of::large_tile<executor>(a...); })
        .rungs();
  }

  static Cost cost(const Sizes& sizes) {
    const double rows = sizes[0];
    const double columns = sizes[1];
    const double depth = sizes[2];
    return {.operations = 2.0 * rows * columns * depth,
            .least_bytes = 4.0 * (rows * depth + depth * columns + rows * columns)};
  }

  /// A sum of K products in any order is off by at most gamma_K times the sum of their magnitudes
  /// (Higham 2002, section 3.5).
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<float> c = buffers.download(problem.c);
    const auto columns = static_cast<std::size_t>(columns_);
    const auto depth = static_cast<std::size_t>(depth_);
    Verdict verdict;
    for (const std::size_t index : sample(c.size(), kMostProducts / depth, seed_)) {
      const std::size_t row = index / columns;
      const std::size_t column = index % columns;
      ExactSum sum;
      for (std::size_t k = 0; k < depth; ++k) {
        sum.add(double{a_[row * depth + k]} * double{b_[k * columns + column]});
      }
      verdict.compare("c", index, double{c[index]}, sum.value, rounding_of(depth_) * sum.magnitude);
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostProducts = std::size_t{1} << 25;  // of the f64 computation

  /// Kernels count the elements of a matrix in an int.
  static std::string refusal(const Sizes& sizes) {
    const std::size_t largest =
        std::max({element_count({sizes[0], sizes[2]}), element_count({sizes[2], sizes[1]}),
                  element_count({sizes[0], sizes[1]})});
    if (largest <= std::size_t{std::numeric_limits<int>::max()}) {
      return {};
    }
    return fmt::format(
        "a matrix has {} elements, expected at most {}: kernels count them in an int. Hint: choose "
        "smaller sizes",
        largest, std::numeric_limits<int>::max());
  }

  int rows_;
  int columns_;
  int depth_;
  std::uint64_t seed_;
  std::vector<float> a_;  // (rows, depth)
  std::vector<float> b_;  // (depth, columns)
};

}  // namespace

std::unique_ptr<Ladder> matmul_fp32_ladder() { return std::make_unique<LadderOf<MatmulFp32>>(); }

}  // namespace ultra::ladders
