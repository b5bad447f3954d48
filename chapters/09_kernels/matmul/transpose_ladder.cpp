#include "chapters/09_kernels/ladders.hpp"

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/basics/transpose/transpose.hpp"

namespace ultra::ladders {
namespace {

class Transpose {
 public:
  using Problem = kernels::transpose::Problem;

  Transpose(const Sizes& sizes, std::uint64_t seed)
      : rows_(sizes[0]), columns_(sizes[1]), in_(normal_values(element_count(sizes), seed, "in")) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.rows = rows_,
            .columns = columns_,
            .in = buffers.input("in", in_),
            .out = buffers.output("out", in_.size())};
  }

  static LadderInfo describe() {
    return {.name = "transpose",
            .title = "out = in^T in fp32",
            .dimensions = {{.name = "rows", .emulated = 128, .gpu = 8192},
                           {.name = "columns", .emulated = 96, .gpu = 8192}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::transpose;
    using simt::Executor;
    return RungTable<Problem>("basics/transpose")
        .add("naive", "one thread per element: rows are read, columns are written",
             []<Executor executor>(const auto&... a) { rungs_of::naive<executor>(a...); })
        .add("tiled", "tiles turn in shared memory: rows are read and written",
             []<Executor executor>(const auto&... a) { rungs_of::tiled<executor>(a...); })
        .add_exercise(
            "09.4", "padded_transpose.cu", "padded",
            "rows of the tile one element longer: no two elements of a column in one bank",
            []<Executor executor>(const auto&... a) { rungs_of::padded<executor>(a...); })
        .add("vectorised", "16 bytes per lane and access, in a tile with permuted chunks",
             []<Executor executor>(const auto&... a) { rungs_of::vectorised<executor>(a...); })
        .rungs();
  }

  static Cost cost(const Sizes& sizes) {
    const double bytes = 4.0 * sizes[0] * sizes[1];
    return {.operations = 0.0, .least_bytes = 2.0 * bytes, .written_bytes = bytes};
  }

  /// Nothing is computed: every element must be equal.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<float> out = buffers.download(problem.out);
    const auto rows = static_cast<std::size_t>(rows_);
    const auto columns = static_cast<std::size_t>(columns_);
    Verdict verdict;
    for (std::size_t index = 0; index < out.size(); ++index) {
      const std::size_t column = index / rows;
      const std::size_t row = index % rows;
      verdict.compare("out", index, double{out[index]}, double{in_[row * columns + column]}, 0.0);
    }
    return verdict;
  }

 private:
  int rows_;
  int columns_;
  std::vector<float> in_;  // (rows, columns)
};

}  // namespace

std::unique_ptr<Ladder> transpose_ladder() { return std::make_unique<LadderOf<Transpose>>(); }

}  // namespace ultra::ladders
