#include <fmt/format.h>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/matmul/matmul_turned/matmul_turned.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::matmul_turned;
using rungs_of::Lies;
using simt::bf16;

std::string refuse_ragged(const Sizes& sizes) {
  for (const int size : sizes) {
    if (size % 8 == 0) continue;
    return fmt::format(
        "rows x columns x depth are {} x {} x {}, expected multiples of 8: rows of a factor begin "
        "at multiples of 16 bytes, whichever way it lies",
        sizes[0], sizes[1], sizes[2]);
  }
  return {};
}

class MatmulTurned {
 public:
  using Problem = rungs_of::Problem;

  MatmulTurned(const Sizes& sizes, std::uint64_t seed)
      : rows_(sizes[0]),
        columns_(sizes[1]),
        depth_(sizes[2]),
        seed_(seed),
        a_lies_(seed % 3 == 1 ? Lies::kAlongRows : Lies::kAlongDepth),
        b_lies_(seed % 3 == 0 ? Lies::kAlongDepth : Lies::kAlongRows),
        is_float_(seed / 3 % 2 == 0),
        a_(to_bf16(normal_values(element_count({rows_, depth_}), seed, "a"))),
        b_(to_bf16(normal_values(element_count({columns_, depth_}), seed, "b"))),
        before_(normal_values(element_count({rows_, columns_}), seed, "sums")) {}

  Problem problem(ProblemBuffers& buffers) const {
    const std::size_t results = element_count({rows_, columns_});
    return {.rows = rows_,
            .columns = columns_,
            .depth = depth_,
            .a = buffers.input("a", a_),
            .a_lies = a_lies_,
            .b = buffers.input("b", b_),
            .b_lies = b_lies_,
            .c = is_float_ ? nullptr : buffers.output<bf16>("c", results),
            .sums = is_float_ ? buffers.input("sums", before_) : nullptr,
            .adds = true};
  }

  static LadderInfo describe() {
    return {.name = "matmul_turned",
            .title = "c += transpose(a) b in bf16, sums in fp32: gradients of weights",
            .dimensions = {{.name = "rows", .emulated = 96, .gpu = 8192},
                           {.name = "columns", .emulated = 96, .gpu = 8192},
                           {.name = "depth", .emulated = 96, .gpu = 8192}},
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Executor;
    return RungTable<Problem>("matmul/matmul_turned")
        .add("ldmatrix_turns", "ldmatrix transposes on the way to registers", refuse_ragged,
             []<Executor executor>(const auto&... a) { rungs_of::ldmatrix_turns<executor>(a...); })
        .add_hopper(
            "wgmma_turns", "wgmma reads factors as they lie, in clusters of two blocks",
            refuse_ragged,
            []<Executor executor>(const auto&... a) { rungs_of::wgmma_turns<executor>(a...); })
        .rungs();
  }

  static Cost cost(const Sizes& sizes) {
    const double rows = sizes[0];
    const double columns = sizes[1];
    const double depth = sizes[2];
    return {.operations = 2.0 * rows * columns * depth,
            .least_bytes = 2.0 * (rows * depth + depth * columns) + 8.0 * rows * columns};
  }

  /// As judge_bf16_product(); the sum from before is one addition more.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const auto depth = static_cast<std::size_t>(depth_);
    const double operations = 4.0 * (static_cast<double>(depth) + 16) + 1;
    std::vector<float> found;
    if (is_float_) {
      found = buffers.download(problem.sums);
    } else {
      for (const bf16 value : buffers.download(problem.c)) found.push_back(float(value_of(value)));
    }
    Verdict verdict;
    for (const std::size_t index : sample(found.size(), kMostProducts / depth + 2, seed_)) {
      const std::size_t row = index / static_cast<std::size_t>(columns_);
      const std::size_t column = index % static_cast<std::size_t>(columns_);
      ExactSum sum;
      if (is_float_) sum.add(before_[index]);
      for (std::size_t k = 0; k < depth; ++k) {
        sum.add(value_of(element(a_, a_lies_, rows_, row, k)) *
                value_of(element(b_, b_lies_, columns_, column, k)));
      }
      const double error = rounding_of(operations) * sum.magnitude;
      verdict.compare(is_float_ ? "sums" : "c", index, found[index], sum.value,
                      is_float_ ? error : bf16_error(sum.value, error));
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostProducts = std::size_t{1} << 25;  // of the f64 computation

  [[nodiscard]] bf16 element(const std::vector<bf16>& factor, Lies lies, int rows, std::size_t row,
                             std::size_t k) const {
    return lies == Lies::kAlongRows ? factor[k * static_cast<std::size_t>(rows) + row]
                                    : factor[row * static_cast<std::size_t>(depth_) + k];
  }

  int rows_;
  int columns_;
  int depth_;
  std::uint64_t seed_;
  Lies a_lies_;
  Lies b_lies_;
  bool is_float_;
  std::vector<bf16> a_;        // (rows, depth), or the other way round
  std::vector<bf16> b_;        // (columns, depth), or the other way round
  std::vector<float> before_;  // (rows, columns)
};

}  // namespace

std::unique_ptr<Ladder> matmul_turned_ladder() {
  return std::make_unique<LadderOf<MatmulTurned>>();
}

}  // namespace ultra::ladders
