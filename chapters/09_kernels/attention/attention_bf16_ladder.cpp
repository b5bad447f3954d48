#include "chapters/09_kernels/ladders.hpp"

#include "chapters/09_kernels/attention/attention_reference.hpp"
#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "kernels/ladders/attention/attention_bf16/attention_bf16.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;

class AttentionBf16 {
 public:
  using Problem = kernels::attention_bf16::Problem;

  AttentionBf16(const Sizes& sizes, std::uint64_t seed)
      : inputs_(draw_attention_bf16(sizes, seed)) {}

  Problem problem(ProblemBuffers& buffers) const {
    return {{.shape = inputs_.shape,
             .q = buffers.input("q", to_bf16(inputs_.q)),
             .k = buffers.input("k", to_bf16(inputs_.k)),
             .v = buffers.input("v", to_bf16(inputs_.v)),
             .o = buffers.output<bf16>("o", inputs_.q.size()),
             .lse = buffers.output("lse", inputs_.shape.rows())}};
  }

  static LadderInfo describe() {
    return {.name = "attention_bf16",
            .title = "o = softmax(scale q k^T) v in bf16 on tensor cores, causal for odd seeds",
            .dimensions = attention_dimensions({1, 1, 2, 136, 32}),
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::attention_bf16;
    using simt::Executor;
    return RungTable<Problem>("attention/attention_bf16")
        .add("tensor_cores", "flash attention with mma.sync, weights stay in registers",
             refuse_attention_bf16,
             []<Executor executor>(const auto&... a) { rungs_of::tensor_cores<executor>(a...); })
        .add("swizzled", "swizzled rows without bank conflicts, ldmatrix", refuse_attention_bf16,
             []<Executor executor>(const auto&... a) { rungs_of::swizzled<executor>(a...); })
        .add("pipelined", "the next keys and values are copied while these are multiplied",
             refuse_attention_bf16,
             []<Executor executor>(const auto&... a) { rungs_of::pipelined<executor>(a...); })
        .add_hopper(
            "warpgroups", "wgmma on tiles that TMA brings, beside the softmax",
            refuse_attention_bf16,
            []<Executor executor>(const auto&... a) { rungs_of::warpgroups<executor>(a...); })
        .add_hopper(
            "ping_pong", "warpgroups take turns: one multiplies, one takes powers",
            refuse_attention_bf16,
            []<Executor executor>(const auto&... a) { rungs_of::ping_pong<executor>(a...); })
        .add_hopper(
            "persistent", "blocks stay; o leaves by TMA while the next tile arrives",
            refuse_attention_bf16,
            []<Executor executor>(const auto&... a) { rungs_of::persistent<executor>(a...); })
        .rungs();
  }

  // Read once: q, k and v; written once: o and lse.
  static Cost cost(const Sizes& sizes, std::uint64_t seed) {
    return attention_cost(sizes, seed, {.products = 2, .tensors = 2, .element_bytes = 2});
  }

  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    return judge_attention(inputs_, to_float(buffers.download(problem.o)),
                           buffers.download(problem.lse),
                           {.weights = kBf16Rounding, .output = kBf16Rounding});
  }

 private:
  AttentionInputs inputs_;  // rounded to bf16
};

}  // namespace

std::unique_ptr<Ladder> attention_bf16_ladder() {
  return std::make_unique<LadderOf<AttentionBf16>>();
}

}  // namespace ultra::ladders
