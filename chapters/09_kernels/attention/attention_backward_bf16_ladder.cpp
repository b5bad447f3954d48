#include "chapters/09_kernels/ladders.hpp"

#include "chapters/09_kernels/attention/attention_gradients.hpp"
#include "chapters/09_kernels/attention/attention_reference.hpp"
#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/attention/attention_backward_bf16/attention_backward_bf16.hpp"
#include "kernels/ladders/attention/attention_bf16/attention_bf16.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;

class AttentionBackwardBf16 {
 public:
  using Problem = kernels::attention_backward_bf16::OrderedProblem;

  AttentionBackwardBf16(const Sizes& sizes, std::uint64_t seed)
      : inputs_(draw_attention_bf16(sizes, seed)),
        d_o_(to_float(to_bf16(normal_values(inputs_.q.size(), seed, "d_o")))) {}

  Problem problem(ProblemBuffers& buffers) const {
    const kernels::attention_bf16::Problem forward{
        {.shape = inputs_.shape,
         .q = buffers.input("q", to_bf16(inputs_.q)),
         .k = buffers.input("k", to_bf16(inputs_.k)),
         .v = buffers.input("v", to_bf16(inputs_.v)),
         .o = buffers.scratch<bf16>("o", inputs_.q.size()),
         .lse = buffers.scratch("lse", inputs_.shape.rows())}};
    // What the backward pass gets from the forward pass.
    everywhere<kernels::attention_bf16::Problem>([]<simt::Executor executor>(const auto&... a) {
      kernels::attention_bf16::pipelined<executor>(a...);
    }).on(buffers.executor())(forward, {});
    namespace backward = kernels::attention_backward_bf16;
    return {{backward_problem<backward::ProblemOf<bf16>>(forward, inputs_, to_bf16(d_o_), buffers),
             buffers.scratch("d_q_sums", backward::d_q_sums_of(inputs_.shape)),
             buffers.scratch<unsigned>("turns", backward::turns_of(inputs_.shape))}};
  }

  static LadderInfo describe() {
    return {.name = "attention_backward_bf16",
            .title = "dq, dk and dv of attention in bf16 on tensor cores, causal for odd seeds",
            .dimensions = attention_dimensions({1, 1, 2, 70, 32}),
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::attention_backward_bf16;
    using simt::Executor;
    return RungTable<Problem>("attention/attention_backward_bf16")
        .add("tensor_cores",
             "a kernel for keys, one for queries; nothing is exchanged between lanes",
             refuse_attention_bf16,
             []<Executor executor>(const Problem& of, const auto& queue) {
               rungs_of::tensor_cores<executor>({of}, queue);
             })
        .add_hopper(
            "one_kernel", "five products with wgmma; d_q is summed in a fixed order",
            refuse_attention_bf16,
            []<Executor executor>(const auto&... a) { rungs_of::one_kernel<executor>(a...); })
        .rungs();
  }

  // Read once: q, o, d_o, k, v and lse; written once: d_q, d_k, d_v.
  static Cost cost(const Sizes& sizes, std::uint64_t seed) {
    return attention_cost(sizes, seed, {.products = 5, .tensors = 4, .element_bytes = 2});
  }

  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    return judge_attention_gradients(inputs_, d_o_, download_gradients(problem, buffers),
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
