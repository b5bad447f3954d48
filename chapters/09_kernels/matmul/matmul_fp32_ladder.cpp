#include "chapters/09_kernels/matmul/matmul_fp32_ladder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/matmul_fp32/matmul_fp32.hpp"
#include "kernels/simt/buffer.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::matmul_fp32;

class MatmulFp32 {
 public:
  using Problem = rungs_of::Problem;

  template <simt::Side side>
  class Buffers {
   public:
    explicit Buffers(const MatmulFp32& work)
        : work_(work), a_("a", work.a_), b_("b", work.b_), c_("c", poison(work.c_size())) {}

    Problem problem() {
      return {.rows = work_.rows_,
              .columns = work_.columns_,
              .depth = work_.depth_,
              .a = a_.data(),
              .b = b_.data(),
              .c = c_.data()};
    }
    [[nodiscard]] std::vector<float> c() const { return c_.download(); }

   private:
    const MatmulFp32& work_;
    simt::Buffer<float, side> a_;
    simt::Buffer<float, side> b_;
    simt::Buffer<float, side> c_;
  };

  MatmulFp32(const Sizes& sizes, std::uint64_t seed)
      : rows_(sizes[0]),
        columns_(sizes[1]),
        depth_(sizes[2]),
        seed_(seed),
        a_(normal_values(product(rows_, depth_), seed, "a")),
        b_(normal_values(product(depth_, columns_), seed, "b")) {}

  static LadderInfo describe() {
    return {.name = "matmul_fp32",
            .title = "c = a b in fp32 on CUDA cores",
            .dimensions = {{.name = "rows", .emulated = 60, .gpu = 4096},
                           {.name = "columns", .emulated = 132, .gpu = 4096},
                           {.name = "depth", .emulated = 40, .gpu = 4096}},
            .limit = Limit::kFp32};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Side;
    return {
        {.info = {.number = 1,
                  .name = "naive",
                  .idea = "one thread per element, the lanes of a warp in one column",
                  .file = "kernels/matmul_fp32/01_naive.cu"},
         .launchers =
             everywhere<Problem>([]<Side side>(const auto&... a) { rungs_of::naive<side>(a...); }),
         .refusal = refusal},
        {.info = {.number = 2,
                  .name = "coalesced",
                  .idea = "the lanes of a warp in one row: neighbours load neighbours",
                  .file = "solutions/09_kernels/coalesced_matmul.cu",
                  .exercise = "09.1"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::coalesced<side>(a...); }),
         .refusal = refusal},
        {.info = {.number = 3,
                  .name = "tiled",
                  .idea = "tiles of a and b in shared memory: 2 loads from global memory per 32",
                  .file = "solutions/09_kernels/tiled_matmul.cu",
                  .exercise = "09.2"},
         .launchers =
             everywhere<Problem>([]<Side side>(const auto&... a) { rungs_of::tiled<side>(a...); }),
         .refusal = refusal},
        {.info = {.number = 4,
                  .name = "coarsened",
                  .idea = "eight rows of c a thread: an element of b stays in a register",
                  .file = "solutions/09_kernels/coarsened_matmul.cu",
                  .exercise = "09.3"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::coarsened<side>(a...); }),
         .refusal = refusal},
        {.info = {.number = 5,
                  .name = "register_tile",
                  .idea = "8 x 8 of c a thread: 16 loads for 64 multiply-adds",
                  .file = "kernels/matmul_fp32/05_register_tile.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::register_tile<side>(a...); }),
         .refusal = refusal},
        {.info = {.number = 6,
                  .name = "vectorised",
                  .idea = "four floats per access, the tile of a transposed for it",
                  .file = "kernels/matmul_fp32/06_vectorised.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::vectorised<side>(a...); }),
         .refusal = refusal},
        {.info = {.number = 7,
                  .name = "warp_tile",
                  .idea = "64 x 64 of c a warp, 16 x 8 a thread: fewer different floats per load",
                  .file = "kernels/matmul_fp32/07_warp_tile.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::warp_tile<side>(a...); }),
         .refusal = refusal},
        {.info = {.number = 8,
                  .name = "pipelined",
                  .idea = "cp.async: four tiles on their way or in use",
                  .file = "kernels/matmul_fp32/08_pipelined.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::pipelined<side>(a...); }),
         .refusal = refusal},
        {.info = {.number = 9,
                  .name = "large_tile",
                  .idea = "128 x 256 of c a block, the next registers loaded during multiplication",
                  .file = "kernels/matmul_fp32/09_large_tile.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::large_tile<side>(a...); }),
         .refusal = refusal}};
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
  template <simt::Side side>
  Verdict judge(const Buffers<side>& buffers) const {
    const std::vector<float> c = buffers.c();
    Verdict verdict;
    for (const std::size_t index : sample(c.size(), kMostProducts / product(depth_, 1), seed_)) {
      const std::size_t row = index / product(columns_, 1);
      const std::size_t column = index % product(columns_, 1);
      double expected = 0.0;
      double magnitude = 0.0;
      for (std::size_t k = 0; k < product(depth_, 1); ++k) {
        const double term = double{a_[row * product(depth_, 1) + k]} *
                            double{b_[k * product(columns_, 1) + column]};
        expected += term;
        magnitude += std::abs(term);
      }
      verdict.compare("c", index, double{c[index]}, expected, rounding_of(depth_) * magnitude);
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostProducts = std::size_t{1} << 25;  // of the f64 computation

  /// Kernels count the elements of a matrix in an int.
  static std::string refusal(const Sizes& sizes) {
    const std::size_t largest = std::max(
        {product(sizes[0], sizes[2]), product(sizes[2], sizes[1]), product(sizes[0], sizes[1])});
    if (largest <= std::size_t{std::numeric_limits<int>::max()}) {
      return {};
    }
    return fmt::format(
        "a matrix has {} elements, expected at most {}: kernels count them in an int. Hint: choose "
        "smaller sizes",
        largest, std::numeric_limits<int>::max());
  }

  static std::size_t product(int left, int right) {
    return static_cast<std::size_t>(left) * static_cast<std::size_t>(right);
  }
  [[nodiscard]] std::size_t c_size() const { return product(rows_, columns_); }

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
