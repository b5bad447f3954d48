#include "chapters/09_kernels/ladders.hpp"

#include <fmt/format.h>

#include "chapters/09_kernels/attention/attention_reference.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/attention/attention/attention.hpp"

namespace ultra::ladders {
namespace {

// The largest matrix of scores that the first rungs get: 16 GiB.
constexpr double kMostMatrixElements = double(std::size_t{1} << 32);

double matrix_elements(const Sizes& sizes) {
  return double(sizes[0]) * sizes[1] * sizes[2] * sizes[3] * sizes[3];
}

std::string refuse_matrix(const Sizes& sizes) {
  if (matrix_elements(sizes) > kMostMatrixElements) {
    return fmt::format(
        "its matrices of scores have {:.3g} GiB, expected at most 16; rung 3 needs none",
        matrix_elements(sizes) * 4.0 / double(1 << 30));
  }
  return {};
}

class Attention {
 public:
  using Problem = kernels::attention::Problem;

  Attention(const Sizes& sizes, std::uint64_t seed)
      : inputs_(draw_attention(sizes, seed)),
        matrix_elements_(
            refuse_matrix(sizes).empty() ? static_cast<std::size_t>(matrix_elements(sizes)) : 1) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {.shape = inputs_.shape,
            .q = buffers.input("q", inputs_.q),
            .k = buffers.input("k", inputs_.k),
            .v = buffers.input("v", inputs_.v),
            .scores = buffers.scratch("scores", matrix_elements_),
            .o = buffers.output("o", inputs_.q.size()),
            .lse = buffers.output("lse", inputs_.shape.rows())};
  }

  static LadderInfo describe() {
    return {.name = "attention",
            .title = "o = softmax(scale q k^T) v in fp32 on CUDA cores, causal for odd seeds",
            .dimensions = attention_dimensions({1, 1, 2, 66, 32}),
            .limit = Limit::kFp32};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::attention;
    using simt::Executor;
    return RungTable<Problem>("attention/attention")
        .add("naive", "scores, softmax and output, a kernel each; the matrix in memory",
             refuse_matrix,
             []<Executor executor>(const auto&... a) { rungs_of::naive<executor>(a...); })
        .add("fused", "the softmax's sums are taken with the scores, masked keys skipped",
             refuse_matrix,
             []<Executor executor>(const auto&... a) { rungs_of::fused<executor>(a...); })
        .add("online", "one warp per row, online softmax: no matrix in memory",
             refuse_long_attention_rows,
             []<Executor executor>(const auto&... a) { rungs_of::online<executor>(a...); })
        .add_exercise(
            "09.8", "flash_forward.cu", "flash_forward",
            "a block shares tiles of keys and values among 64 rows", refuse_attention_tiles,
            []<Executor executor>(const auto&... a) { rungs_of::flash_forward<executor>(a...); })
        .add("flash_causal", "no tile above the diagonal, powers of 2, long rows first",
             refuse_attention_tiles,
             []<Executor executor>(const auto&... a) { rungs_of::flash_causal<executor>(a...); })
        .add("flash_grouped", "tiles of 128 rows, from the heads that share keys and values",
             refuse_attention_tiles,
             []<Executor executor>(const auto&... a) { rungs_of::flash_grouped<executor>(a...); })
        .rungs();
  }

  // Read once: q, k and v; written once: o and lse.
  static Cost cost(const Sizes& sizes, std::uint64_t seed) {
    return attention_cost(sizes, seed, {.products = 2, .tensors = 2, .element_bytes = 4});
  }

  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    return judge_attention(inputs_, buffers.download(problem.o), buffers.download(problem.lse), {});
  }

 private:
  AttentionInputs inputs_;
  std::size_t matrix_elements_;
};

}  // namespace

std::unique_ptr<Ladder> attention_ladder() { return std::make_unique<LadderOf<Attention>>(); }

}  // namespace ultra::ladders
