// Exercise 06.2: zig-zag, and back.
//
// Goal:        deal a sequence out so that all ranks have equal work, and put it together again.
// Length:      about 45 lines
// Difficulty:  medium
// Check:       ./workbook check 06.2
// Hints:       ./workbook hint 06.2
// Targets:     an early chunk and the late one that makes up for it, for any number of ranks;
//              positions of the whole sequence, so that losses add up to the mean of all tokens;
//              join_sequence() undoes split_sequence(), bit for bit, for any number of sequences
//
// chapters/06_context_parallel/sequence_chunks.hpp declares the functions.
#include "chapters/06_context_parallel/sequence_chunks.hpp"

#include "common/base/errors.hpp"

namespace ultra::context_parallel {

// TODO 1: one chunk of layout.chunk_len() tokens (kContiguous), or an early and a late one (kZigzag).
TokenChunks chunks_of([[maybe_unused]] const ContextLayout& layout, [[maybe_unused]] int rank) {
  throw NotWritten("06.2 sequence_chunks: chunks_of");
}

// TODO 2: the positions of these tokens in the whole sequence, and its length with padding: two fields
// of plan.tokens (common/train/token_plan.hpp). Leave plan.micro_batches as they are: each token's loss is
// divided by their normalizer. Why is that right, although every rank has only a part of the
// tokens?
void deal_out([[maybe_unused]] train::Plan& plan, [[maybe_unused]] const ContextLayout& layout,
              [[maybe_unused]] int rank) {
  throw NotWritten("06.2 sequence_chunks: deal_out");
}

// TODO 3: the chunks of all these ranks stand in `whole` in the order of their positions, without
// those of other ranks: find the rows of each, and copy them to the rank's part.
std::vector<Tensor> split_sequence([[maybe_unused]] const Tensor& whole,
                                   [[maybe_unused]] std::span<const TokenChunks> chunks) {
  throw NotWritten("06.2 sequence_chunks: split_sequence");
}

// TODO 4: the same rows, copied the other way.
Tensor join_sequence([[maybe_unused]] std::span<const Tensor> parts,
                     [[maybe_unused]] std::span<const TokenChunks> chunks) {
  throw NotWritten("06.2 sequence_chunks: join_sequence");
}

}  // namespace ultra::context_parallel
