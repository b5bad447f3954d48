#include "chapters/09_kernels/attention/attention_gradients.hpp"
#include "chapters/09_kernels/attention/packed_documents.hpp"
#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/ladders/attention/attention_backward_varlen/attention_backward_varlen.hpp"
#include "kernels/ladders/attention/attention_varlen/attention_varlen.hpp"

namespace ultra::ladders {
namespace {

namespace forward_of = kernels::attention_varlen;
using simt::bf16;

class AttentionBackwardVarlen {
 public:
  using Problem = kernels::attention_backward_varlen::Problem;

  AttentionBackwardVarlen(const Sizes& sizes, std::uint64_t seed)
      : packed_(sizes, seed),
        d_o_(to_float(to_bf16(normal_values(packed_.pack.q.size(), seed, "d_o")))) {}

  Problem problem(ProblemBuffers& buffers) const {
    const AttentionInputs& pack = packed_.pack;
    const forward_of::Problem forward{.pack = {{.shape = pack.shape,
                                                .q = buffers.input("q", to_bf16(pack.q)),
                                                .k = buffers.input("k", to_bf16(pack.k)),
                                                .v = buffers.input("v", to_bf16(pack.v)),
                                                .o = buffers.scratch<bf16>("o", pack.q.size()),
                                                .lse = buffers.scratch("lse", pack.shape.rows())}},
                                      .documents = static_cast<int>(packed_.documents()),
                                      .begins = buffers.input("begins", packed_.begins),
                                      .document_of = nullptr};
    // What the backward pass gets from the forward pass.
    everywhere<forward_of::Problem>([]<simt::Executor executor>(const auto&... a) {
      forward_of::tiles_of_documents<executor>(a...);
    }).on(buffers.executor())(forward, {});
    return {.pack = backward_problem<kernels::attention_backward_bf16::Problem>(
                forward.pack, pack, to_bf16(d_o_), buffers),
            .documents = forward.documents,
            .begins = forward.begins};
  }

  static LadderInfo describe() {
    return {.name = "attention_backward_varlen",
            .title = "dq, dk and dv within each document of a pack, in bf16, causal for odd seeds",
            .dimensions = pack_dimensions({4, 40, 1, 2, 32}),
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::attention_backward_varlen;
    using simt::Executor;
    return RungTable<Problem>("attention/attention_backward_varlen")
        .add("tiles_of_documents", "tiles of keys and of queries begin where documents do",
             refuse_pack_bf16,
             []<Executor executor>(const auto&... a) {
               rungs_of::tiles_of_documents<executor>(a...);
             })
        .rungs();
  }

  // Read once: q, o, d_o, k, v, lse and begins; written once: d_q, d_k, d_v.
  static Cost cost(const Sizes& sizes, std::uint64_t seed) {
    return pack_cost(sizes, seed, {.products = 5, .tensors = 4, .element_bytes = 2});
  }

  // Each document is a problem of its own.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const AttentionGradients all = download_gradients(problem.pack, buffers);
    const auto columns = static_cast<std::size_t>(packed_.pack.shape.head_dim);
    Verdict verdict;
    for (std::size_t index = 0; index < packed_.documents(); ++index) {
      const auto own = [&](const std::vector<float>& values) {
        return packed_.rows_of(index, values, columns);
      };
      const AttentionGradients gradients{.o = own(all.o),
                                         .lse = packed_.rows_of(index, all.lse, 1),
                                         .d_q = own(all.d_q),
                                         .d_k = own(all.d_k),
                                         .d_v = own(all.d_v)};
      verdict.add(judge_attention_gradients(packed_.document(index), own(d_o_), gradients,
                                            {.weights = kBf16Rounding, .output = kBf16Rounding}));
    }
    return verdict;
  }

 private:
  PackedDocuments packed_;
  std::vector<float> d_o_;  // rounded to bf16
};

}  // namespace

std::unique_ptr<Ladder> attention_backward_varlen_ladder() {
  return std::make_unique<LadderOf<AttentionBackwardVarlen>>();
}

}  // namespace ultra::ladders
