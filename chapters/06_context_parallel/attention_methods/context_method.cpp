#include "chapters/06_context_parallel/attention_methods/context_method.hpp"

#include <utility>
#include <vector>

#include "chapters/06_context_parallel/sequence_chunks.hpp"

namespace ultra::context_parallel {
namespace {

std::vector<TokenChunks> chunks_of_ranks(const ContextLayout& layout, int first, int count) {
  std::vector<TokenChunks> chunks;
  for (int rank = first; rank < first + count; ++rank) chunks.push_back(chunks_of(layout, rank));
  return chunks;
}

/// Neighbours, each with its own tokens.
SequenceGroup make_heads(const Communicator& cp, const ContextLayout& layout, int ulysses) {
  const int group = cp.rank() / ulysses;
  return {.ranks = ulysses == cp.size()
                       ? cp
                       : cp.split([ulysses](int rank) { return rank / ulysses; }, "heads"),
          .chunks = chunks_of_ranks(layout, group * ulysses, ulysses)};
}

/// One rank of each group of neighbours, with the tokens of all of them.
SequenceGroup make_ring(const Communicator& cp, const ContextLayout& layout, int ulysses) {
  std::vector<TokenChunks> chunks;
  for (int first = 0; first < cp.size(); first += ulysses) {
    chunks.push_back(joined_chunks(chunks_of_ranks(layout, first, ulysses)));
  }
  return {
      .ranks = ulysses == 1 ? cp : cp.split([ulysses](int rank) { return rank % ulysses; }, "ring"),
      .chunks = std::move(chunks)};
}

}  // namespace

ContextGroups::ContextGroups(const Communicator& cp, const ContextLayout& layout,
                             const MethodChoice& choice)
    : method_(choice.method),
      heads_(make_heads(cp, layout, choice.ulysses)),
      ring_(make_ring(cp, layout, choice.ulysses)) {}

std::unique_ptr<SequenceAttention> ContextGroups::make_attention() const {
  if (method_ == ContextMethod::kAllGather) return std::make_unique<GatheredAttention>(ring_);
  auto ring = std::make_unique<RingAttention>(ring_);
  if (heads_.chunks.size() == 1) return ring;
  return std::make_unique<HeadScatteredAttention>(heads_, std::move(ring));
}

}  // namespace ultra::context_parallel
