#include "chapters/07_pipeline_parallel/lists/interleaved_list.hpp"

#include <algorithm>

namespace ultra::pipeline_parallel {
namespace {

using train::Action;
using train::ActionKind;

/// A rank's n-th forward pass: `stages` micro-batches go through a chunk, then through the next.
Action nth_forward(const InterleavedRank& rank, std::size_t n) {
  const std::size_t round = n / (rank.stages * rank.chunks);
  return {.kind = ActionKind::kForward,
          .micro_batch = round * rank.stages + n % rank.stages,
          .chunk = n / rank.stages % rank.chunks};
}

/// The n-th backward pass: the same micro-batch, chunks from the last to the first.
Action nth_backward(const InterleavedRank& rank, std::size_t n) {
  Action action = nth_forward(rank, n);
  action.kind = ActionKind::kBackward;
  action.chunk = rank.chunks - 1 - action.chunk;
  return action;
}

}  // namespace

// [region interleaved_list]
train::StepSchedule interleaved_list(const InterleavedRank& rank, std::size_t micro_batches) {
  const std::size_t passes = micro_batches * rank.chunks;
  // All chunks but the last see a whole group first. In the last each stage behind costs a hop, and
  // a second pass, during which its messages travel.
  const std::size_t full = (rank.chunks - 1) * rank.stages + 2 * (rank.stages - rank.stage - 1);
  const std::size_t warmup = std::min(full, passes);
  train::StepSchedule list;
  list.reserve(2 * passes);
  for (std::size_t n = 0; n < warmup; ++n) list.push_back(nth_forward(rank, n));
  for (std::size_t n = warmup; n < passes; ++n) {
    list.push_back(nth_forward(rank, n));
    list.push_back(nth_backward(rank, n - warmup));
  }
  for (std::size_t n = passes - warmup; n < passes; ++n) list.push_back(nth_backward(rank, n));
  return list;
}
// [/region]

}  // namespace ultra::pipeline_parallel
