#include "chapters/09_kernels/matmul/transpose_ladder.hpp"

#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/simt/buffer.hpp"
#include "kernels/transpose/transpose.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::transpose;

class Transpose {
 public:
  using Problem = rungs_of::Problem;

  template <simt::Side side>
  class Buffers {
   public:
    explicit Buffers(const Transpose& work)
        : work_(work), in_("in", work.in_), out_("out", poison(work.in_.size())) {}

    Problem problem() {
      return {.rows = work_.rows_, .columns = work_.columns_, .in = in_.data(), .out = out_.data()};
    }
    [[nodiscard]] std::vector<float> out() const { return out_.download(); }

   private:
    const Transpose& work_;
    simt::Buffer<float, side> in_;
    simt::Buffer<float, side> out_;
  };

  Transpose(const Sizes& sizes, std::uint64_t seed)
      : rows_(sizes[0]),
        columns_(sizes[1]),
        in_(normal_values(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_),
                          seed, "in")) {}

  static LadderInfo describe() {
    return {.name = "transpose",
            .title = "out = in^T in fp32",
            .dimensions = {{.name = "rows", .emulated = 128, .gpu = 8192},
                           {.name = "columns", .emulated = 96, .gpu = 8192}},
            .limit = Limit::kMemory};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Side;
    return {
        {.info = {.number = 1,
                  .name = "naive",
                  .idea = "one thread per element: rows are read, columns are written",
                  .file = "kernels/transpose/01_naive.cu"},
         .launchers =
             everywhere<Problem>([]<Side side>(const auto&... a) { rungs_of::naive<side>(a...); })},
        {.info = {.number = 2,
                  .name = "tiled",
                  .idea = "tiles turn in shared memory: rows are read and written",
                  .file = "kernels/transpose/02_tiled.cu"},
         .launchers =
             everywhere<Problem>([]<Side side>(const auto&... a) { rungs_of::tiled<side>(a...); })},
        {.info =
             {.number = 3,
              .name = "padded",
              .idea =
                  "rows of the tile one element longer: no two elements of a column in one bank",
              .file = "solutions/09_kernels/padded_transpose.cu",
              .exercise = "09.4"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::padded<side>(a...); })},
        {.info = {.number = 4,
                  .name = "vectorised",
                  .idea = "16 bytes per lane and access, in a tile with permuted chunks",
                  .file = "kernels/transpose/04_vectorised.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::vectorised<side>(a...); })}};
  }

  static Cost cost(const Sizes& sizes) {
    return {.operations = 0.0, .least_bytes = 2.0 * 4.0 * sizes[0] * sizes[1]};
  }

  /// Nothing is computed: every element must be equal.
  template <simt::Side side>
  Verdict judge(const Buffers<side>& buffers) const {
    const std::vector<float> out = buffers.out();
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
