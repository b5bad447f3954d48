#include "chapters/09_kernels/matmul_fp32_ladder.hpp"

#include <cmath>

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
            .dimensions = {{.name = "rows", .emulated = 96, .gpu = 4096},
                           {.name = "columns", .emulated = 96, .gpu = 4096},
                           {.name = "depth", .emulated = 96, .gpu = 4096}},
            .limit = Limit::kFp32};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Side;
    return {{.info = {.number = 1,
                      .name = "naive",
                      .idea = "one thread per element, the lanes of a warp in one column",
                      .file = "kernels/matmul_fp32/01_naive.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::naive<side>(a...); })},
            {.info = {.number = 2,
                      .name = "coalesced",
                      .idea = "the lanes of a warp in one row: neighbours load neighbours",
                      .file = "solutions/09_kernels/coalesced_matmul.cu",
                      .exercise = "09.1"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::coalesced<side>(a...); })}};
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
