#include "chapters/09_kernels/ladders.hpp"

#include "chapters/09_kernels/attention/attention_gradients.hpp"
#include "chapters/09_kernels/attention/attention_reference.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/attention/attention_backward/attention_backward.hpp"

namespace ultra::ladders {
namespace {

class AttentionBackward {
 public:
  using Problem = kernels::attention_backward::Problem;

  AttentionBackward(const Sizes& sizes, std::uint64_t seed)
      : inputs_(draw_attention(sizes, seed)), d_o_(normal_values(inputs_.q.size(), seed, "d_o")) {}

  Problem problem(ProblemBuffers& buffers) const {
    const kernels::attention::Problem forward{.shape = inputs_.shape,
                                              .q = buffers.input("q", inputs_.q),
                                              .k = buffers.input("k", inputs_.k),
                                              .v = buffers.input("v", inputs_.v),
                                              .scores = nullptr,
                                              .o = buffers.scratch("o", inputs_.q.size()),
                                              .lse = buffers.scratch("lse", inputs_.shape.rows())};
    // What the backward pass gets from the forward pass.
    everywhere<kernels::attention::Problem>([]<simt::Executor executor>(const auto&... a) {
      kernels::attention::flash_causal<executor>(a...);
    }).on(buffers.executor())(forward, {});
    return backward_problem<Problem>(forward, inputs_, d_o_, buffers);
  }

  static LadderInfo describe() {
    return {.name = "attention_backward",
            .title = "dq, dk and dv of attention in fp32 on CUDA cores, causal for odd seeds",
            .dimensions = attention_dimensions({1, 1, 2, 66, 32}),
            .limit = Limit::kFp32};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::attention_backward;
    using simt::Executor;
    return RungTable<Problem>("attention/attention_backward")
        .add("atomics", "a block per tile of keys, which adds its part of dq atomically",
             refuse_attention_tiles,
             []<Executor executor>(const auto&... a) { rungs_of::atomics<executor>(a...); })
        .add("split", "dq has a kernel of its own, a block per tile of queries",
             refuse_attention_tiles,
             []<Executor executor>(const auto&... a) { rungs_of::split<executor>(a...); })
        .rungs();
  }

  // Read once: q, o, d_o, k, v and lse; written once: d_q, d_k, d_v.
  static Cost cost(const Sizes& sizes, std::uint64_t seed) {
    return attention_cost(sizes, seed, {.products = 5, .tensors = 4, .element_bytes = 4});
  }

  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    return judge_attention_gradients(inputs_, d_o_, download_gradients(problem, buffers), {});
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
