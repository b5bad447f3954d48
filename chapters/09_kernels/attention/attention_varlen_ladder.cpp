#include "chapters/09_kernels/attention/packed_documents.hpp"
#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "kernels/ladders/attention/attention_varlen/attention_varlen.hpp"

namespace ultra::ladders {
namespace {

using simt::bf16;

class AttentionVarlen {
 public:
  using Problem = kernels::attention_varlen::Problem;

  AttentionVarlen(const Sizes& sizes, std::uint64_t seed) : packed_(sizes, seed) {}

  Problem problem(ProblemBuffers& buffers) const {
    const AttentionInputs& pack = packed_.pack;
    return {.pack = {{.shape = pack.shape,
                      .q = buffers.input("q", to_bf16(pack.q)),
                      .k = buffers.input("k", to_bf16(pack.k)),
                      .v = buffers.input("v", to_bf16(pack.v)),
                      .o = buffers.output<bf16>("o", pack.q.size()),
                      .lse = buffers.output("lse", pack.shape.rows())}},
            .documents = static_cast<int>(packed_.documents()),
            .begins = buffers.input("begins", packed_.begins),
            .document_of = buffers.input("document_of", packed_.document_of())};
  }

  static LadderInfo describe() {
    return {.name = "attention_varlen",
            .title = "attention within each document of a pack, in bf16, causal for odd seeds",
            .dimensions = pack_dimensions({5, 60, 1, 2, 32}),
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    namespace rungs_of = kernels::attention_varlen;
    using simt::Executor;
    return RungTable<Problem>("attention/attention_varlen")
        .add("masked", "the pack as one sequence; a mask hides other documents", refuse_pack_bf16,
             []<Executor executor>(const auto&... a) { rungs_of::masked<executor>(a...); })
        .add("bounded", "a block walks the keys that its queries see, no others", refuse_pack_bf16,
             []<Executor executor>(const auto&... a) { rungs_of::bounded<executor>(a...); })
        .add("tiles_of_documents", "tiles of queries begin where documents do", refuse_pack_bf16,
             []<Executor executor>(const auto&... a) {
               rungs_of::tiles_of_documents<executor>(a...);
             })
        .rungs();
  }

  // Read once: q, k, v and begins; written once: o and lse.
  static Cost cost(const Sizes& sizes, std::uint64_t seed) {
    return pack_cost(sizes, seed, {.products = 2, .tensors = 2, .element_bytes = 2});
  }

  // Each document is a problem of its own.
  Verdict judge(const Problem& problem, const ProblemBuffers& buffers) const {
    const std::vector<float> o = to_float(buffers.download(problem.pack.o));
    const std::vector<float> lse = buffers.download(problem.pack.lse);
    const auto columns = static_cast<std::size_t>(packed_.pack.shape.head_dim);
    Verdict verdict;
    for (std::size_t index = 0; index < packed_.documents(); ++index) {
      verdict.add(judge_attention(packed_.document(index), packed_.rows_of(index, o, columns),
                                  packed_.rows_of(index, lse, 1),
                                  {.weights = kBf16Rounding, .output = kBf16Rounding}));
    }
    return verdict;
  }

 private:
  PackedDocuments packed_;
};

}  // namespace

std::unique_ptr<Ladder> attention_varlen_ladder() {
  return std::make_unique<LadderOf<AttentionVarlen>>();
}

}  // namespace ultra::ladders
