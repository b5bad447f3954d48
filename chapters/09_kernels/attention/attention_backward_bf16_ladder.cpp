#include "chapters/09_kernels/attention/attention_backward_bf16_ladder.hpp"

#include "build_config.hpp"
#include "chapters/09_kernels/attention/attention_bf16_ladder.hpp"
#include "chapters/09_kernels/attention/attention_gradients.hpp"
#include "chapters/09_kernels/attention/attention_reference.hpp"
#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/attention_backward_bf16/attention_backward_bf16.hpp"
#include "kernels/attention_bf16/attention_bf16.hpp"
#include "kernels/simt/buffer.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::attention_backward_bf16;
using simt::bf16;

class AttentionBackwardBf16 {
 public:
  using Problem = rungs_of::Problem;

  template <simt::Side side>
  class Buffers {
   public:
    explicit Buffers(const AttentionBackwardBf16& work)
        : shape_(work.inputs_.shape),
          q_("q", to_bf16(work.inputs_.q)),
          k_("k", to_bf16(work.inputs_.k)),
          v_("v", to_bf16(work.inputs_.v)),
          o_("o", work.inputs_.q.size()),
          lse_("lse", shape_.rows()),
          d_o_("d_o", to_bf16(work.d_o_)),
          delta_("delta", poison(shape_.rows())),
          d_q_("d_q", to_bf16(poison(work.inputs_.q.size()))),
          d_k_("d_k", to_bf16(poison(work.inputs_.k.size()))),
          d_v_("d_v", to_bf16(poison(work.inputs_.v.size()))) {
      // What the backward pass gets from the forward pass.
      if constexpr (side != simt::Side::kGpu || build::kHasCuda) {
        kernels::attention_bf16::pipelined<side>({.shape = shape_,
                                                  .q = q_.data(),
                                                  .k = k_.data(),
                                                  .v = v_.data(),
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
      return {.o = to_float(o_.download()),
              .lse = lse_.download(),
              .d_q = to_float(d_q_.download()),
              .d_k = to_float(d_k_.download()),
              .d_v = to_float(d_v_.download())};
    }

   private:
    AttentionShape shape_;
    simt::Buffer<bf16, side> q_;
    simt::Buffer<bf16, side> k_;
    simt::Buffer<bf16, side> v_;
    simt::Buffer<bf16, side> o_;
    simt::Buffer<float, side> lse_;
    simt::Buffer<bf16, side> d_o_;
    simt::Buffer<float, side> delta_;
    simt::Buffer<bf16, side> d_q_;
    simt::Buffer<bf16, side> d_k_;
    simt::Buffer<bf16, side> d_v_;
  };

  AttentionBackwardBf16(const Sizes& sizes, std::uint64_t seed)
      : inputs_(draw_attention(sizes, seed)),
        d_o_(to_float(to_bf16(normal_values(inputs_.q.size(), seed, "d_o")))) {
    for (std::vector<float>* const values : {&inputs_.q, &inputs_.k, &inputs_.v}) {
      *values = to_float(to_bf16(*values));
    }
  }

  static LadderInfo describe() {
    return {.name = "attention_backward_bf16",
            .title = "dq, dk and dv of attention in bf16 on tensor cores, causal for odd seeds",
            .dimensions = attention_dimensions({1, 1, 2, 70, 32}),
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    using simt::Side;
    return {
        {.info = {.number = 1,
                  .name = "tensor_cores",
                  .idea = "a kernel for keys, one for queries; nothing is exchanged between lanes",
                  .file = "kernels/attention_backward_bf16/01_tensor_cores.cu"},
         .launchers = everywhere<Problem>(
             []<Side side>(const auto&... a) { rungs_of::tensor_cores<side>(a...); }),
         .refusal = refuse_attention_bf16}};
  }

  // Of the causal problem, which seed 1 gives: five products of 2 D operations per pair. Read once: q, o,
  // d_o, k, v and lse; written once: d_q, d_k, d_v.
  static Cost cost(const Sizes& sizes) {
    const double rows = double(sizes[0]) * sizes[1] * sizes[2] * sizes[3];
    const double elements = rows * sizes[4];
    return {.operations = 10.0 * causal_pairs(sizes) * sizes[4],
            .least_bytes = 2.0 * (4.0 * elements + 4.0 * elements / sizes[2]) + 4.0 * rows};
  }

  template <simt::Side side>
  Verdict judge(const Buffers<side>& buffers) const {
    return judge_attention_gradients(inputs_, d_o_, buffers.gradients(),
                                     {.weights = kBf16Rounding, .output = kBf16Rounding});
  }

 private:
  AttentionInputs inputs_;  // rounded to bf16, as d_o_
  std::vector<float> d_o_;
};

}  // namespace

std::unique_ptr<Ladder> attention_backward_bf16_ladder() {
  return std::make_unique<LadderOf<AttentionBackwardBf16>>();
}

}  // namespace ultra::ladders
