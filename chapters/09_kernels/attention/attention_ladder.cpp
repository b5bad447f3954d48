#include "chapters/09_kernels/attention/attention_ladder.hpp"

#include <fmt/format.h>

#include "chapters/09_kernels/attention/attention_reference.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/attention/attention.hpp"
#include "kernels/simt/buffer.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::attention;

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

std::string refuse_long_rows(const Sizes& sizes) {
  if (sizes[4] > rungs_of::kMostHeadDim) {
    return fmt::format("head_dim is {}, expected at most {}: rows are held in registers", sizes[4],
                       rungs_of::kMostHeadDim);
  }
  return {};
}

class Attention {
 public:
  using Problem = rungs_of::Problem;

  template <simt::Side side>
  class Buffers {
   public:
    explicit Buffers(const Attention& work)
        : shape_(work.inputs_.shape),
          q_("q", work.inputs_.q),
          k_("k", work.inputs_.k),
          v_("v", work.inputs_.v),
          scores_("scores", work.matrix_elements_),
          o_("o", poison(work.inputs_.q.size())),
          lse_("lse", poison(shape_.rows())) {}

    Problem problem() {
      return {.shape = shape_,
              .q = q_.data(),
              .k = k_.data(),
              .v = v_.data(),
              .scores = scores_.data(),
              .o = o_.data(),
              .lse = lse_.data()};
    }
    [[nodiscard]] std::vector<float> o() const { return o_.download(); }
    [[nodiscard]] std::vector<float> lse() const { return lse_.download(); }

   private:
    AttentionShape shape_;
    simt::Buffer<float, side> q_;
    simt::Buffer<float, side> k_;
    simt::Buffer<float, side> v_;
    simt::Buffer<float, side> scores_;
    simt::Buffer<float, side> o_;
    simt::Buffer<float, side> lse_;
  };

  Attention(const Sizes& sizes, std::uint64_t seed)
      : inputs_(draw_attention(sizes, seed)),
        matrix_elements_(
            refuse_matrix(sizes).empty() ? static_cast<std::size_t>(matrix_elements(sizes)) : 1) {}

  static LadderInfo describe() {
    return {.name = "attention",
            .title = "o = softmax(scale q k^T) v in fp32 on CUDA cores, causal for odd seeds",
            .dimensions = attention_dimensions({1, 1, 2, 66, 32}),
            .limit = Limit::kFp32};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Side;
    return {
        {.info = {.number = 1,
                  .name = "naive",
                  .idea = "scores, softmax and output, a kernel each; the matrix in memory",
                  .file = "kernels/attention/01_naive.cu"},
         .launchers =
             everywhere<Problem>([]<Side side>(const auto&... a) { rungs_of::naive<side>(a...); }),
         .refusal = refuse_matrix},
        {.info = {.number = 2,
                  .name = "fused",
                  .idea = "the softmax's sums are taken with the scores, masked keys skipped",
                  .file = "kernels/attention/02_fused.cu"},
         .launchers =
             everywhere<Problem>([]<Side side>(const auto&... a) { rungs_of::fused<side>(a...); }),
         .refusal = refuse_matrix},
        {.info = {.number = 3,
                  .name = "online",
                  .idea = "one warp per row, online softmax: no matrix in memory",
                  .file = "kernels/attention/03_online.cu"},
         .launchers =
             everywhere<Problem>([]<Side side>(const auto&... a) { rungs_of::online<side>(a...); }),
         .refusal = refuse_long_rows},
        {.info = {.number = 4,
                  .name = "flash_forward",
                  .idea = "a block shares tiles of keys and values among 64 rows",
                  .file = "solutions/09_kernels/flash_forward.cu",
                  .exercise = "09.8"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::flash_forward<side>(a...); }),
         .refusal = refuse_attention_tiles},
        {.info = {.number = 5,
                  .name = "flash_causal",
                  .idea = "no tile above the diagonal, powers of 2, long rows first",
                  .file = "kernels/attention/05_flash_causal.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::flash_causal<side>(a...); }),
         .refusal = refuse_attention_tiles},
        {.info = {.number = 6,
                  .name = "flash_grouped",
                  .idea = "tiles of 128 rows, from the heads that share keys and values",
                  .file = "kernels/attention/06_flash_grouped.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::flash_grouped<side>(a...); }),
         .refusal = refuse_attention_tiles}};
  }

  // Of the causal problem, which seed 1 gives: two products of 2 D operations per pair.
  static Cost cost(const Sizes& sizes) {
    const double rows = double(sizes[0]) * sizes[1] * sizes[2] * sizes[3];
    const double elements = rows * sizes[4];
    return {.operations = 4.0 * causal_pairs(sizes) * sizes[4],
            .least_bytes = 4.0 * (2.0 * elements + 2.0 * elements / sizes[2] + rows)};
  }

  template <simt::Side side>
  Verdict judge(const Buffers<side>& buffers) const {
    return judge_attention(inputs_, buffers.o(), buffers.lse(), {});
  }

 private:
  AttentionInputs inputs_;
  std::size_t matrix_elements_;
};

}  // namespace

std::unique_ptr<Ladder> attention_ladder() { return std::make_unique<LadderOf<Attention>>(); }

std::string refuse_attention_tiles(const Sizes& sizes) {
  if (sizes[4] % 4 != 0) {
    return fmt::format("head_dim is {}, expected a multiple of 4: rows are loaded 16 bytes at once",
                       sizes[4]);
  }
  return refuse_long_rows(sizes);
}

}  // namespace ultra::ladders
