#include "chapters/09_kernels/attention/attention_backward_ladder.hpp"

#include "build_config.hpp"
#include "chapters/09_kernels/attention/attention_gradients.hpp"
#include "chapters/09_kernels/attention/attention_ladder.hpp"
#include "chapters/09_kernels/attention/attention_reference.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/attention_backward/attention_backward.hpp"
#include "kernels/simt/buffer.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::attention_backward;

class AttentionBackward {
 public:
  using Problem = rungs_of::Problem;

  template <simt::Side side>
  class Buffers {
   public:
    explicit Buffers(const AttentionBackward& work)
        : shape_(work.inputs_.shape),
          q_("q", work.inputs_.q),
          k_("k", work.inputs_.k),
          v_("v", work.inputs_.v),
          o_("o", work.inputs_.q.size()),
          lse_("lse", shape_.rows()),
          d_o_("d_o", work.d_o_),
          delta_("delta", poison(shape_.rows())),
          d_q_("d_q", poison(work.inputs_.q.size())),
          d_k_("d_k", poison(work.inputs_.k.size())),
          d_v_("d_v", poison(work.inputs_.v.size())) {
      // What the backward pass gets from the forward pass.
      if constexpr (side != simt::Side::kGpu || build::kHasCuda) {
        kernels::attention::flash_causal<side>({.shape = shape_,
                                                .q = q_.data(),
                                                .k = k_.data(),
                                                .v = v_.data(),
                                                .scores = nullptr,
                                                .o = o_.data(),
                                                .lse = lse_.data()},
                                               {});
      }
    }

    Problem problem() {
      return {.shape = shape_,
              .q = q_.data(),
              .k = k_.data(),
              .v = v_.data(),
              .o = o_.data(),
              .lse = lse_.data(),
              .d_o = d_o_.data(),
              .delta = delta_.data(),
              .d_q = d_q_.data(),
              .d_k = d_k_.data(),
              .d_v = d_v_.data()};
    }
    [[nodiscard]] AttentionGradients gradients() const {
      return {.o = o_.download(),
              .lse = lse_.download(),
              .d_q = d_q_.download(),
              .d_k = d_k_.download(),
              .d_v = d_v_.download()};
    }

   private:
    AttentionShape shape_;
    simt::Buffer<float, side> q_;
    simt::Buffer<float, side> k_;
    simt::Buffer<float, side> v_;
    simt::Buffer<float, side> o_;
    simt::Buffer<float, side> lse_;
    simt::Buffer<float, side> d_o_;
    simt::Buffer<float, side> delta_;
    simt::Buffer<float, side> d_q_;
    simt::Buffer<float, side> d_k_;
    simt::Buffer<float, side> d_v_;
  };

  AttentionBackward(const Sizes& sizes, std::uint64_t seed)
      : inputs_(draw_attention(sizes, seed)), d_o_(normal_values(inputs_.q.size(), seed, "d_o")) {}

  static LadderInfo describe() {
    return {.name = "attention_backward",
            .title = "dq, dk and dv of attention in fp32 on CUDA cores, causal for odd seeds",
            .dimensions = attention_dimensions({1, 1, 2, 66, 32}),
            .limit = Limit::kFp32};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Side;
    return {{.info = {.number = 1,
                      .name = "atomics",
                      .idea = "a block per tile of keys, which adds its part of dq atomically",
                      .file = "kernels/attention_backward/01_atomics.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::atomics<side>(a...); }),
             .refusal = refuse_attention_tiles},
            {.info = {.number = 2,
                      .name = "split",
                      .idea = "dq has a kernel of its own, a block per tile of queries",
                      .file = "kernels/attention_backward/02_split.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::split<side>(a...); }),
             .refusal = refuse_attention_tiles}};
  }

  // Of the causal problem, which seed 1 gives: five products of 2 D operations per pair. Read once: q, o,
  // d_o, k, v and lse; written once: d_q, d_k, d_v.
  static Cost cost(const Sizes& sizes) {
    const double rows = double(sizes[0]) * sizes[1] * sizes[2] * sizes[3];
    const double elements = rows * sizes[4];
    return {.operations = 10.0 * causal_pairs(sizes) * sizes[4],
            .least_bytes = 4.0 * (4.0 * elements + 4.0 * elements / sizes[2] + rows)};
  }

  template <simt::Side side>
  Verdict judge(const Buffers<side>& buffers) const {
    return judge_attention_gradients(inputs_, d_o_, buffers.gradients(), {});
  }

 private:
  AttentionInputs inputs_;
  std::vector<float> d_o_;
};

}  // namespace

std::unique_ptr<Ladder> attention_backward_ladder() {
  return std::make_unique<LadderOf<AttentionBackward>>();
}

}  // namespace ultra::ladders
