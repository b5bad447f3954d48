#include "chapters/07_pipeline_parallel/lists/zero_bubble_lists.hpp"

#include <algorithm>

namespace ultra::pipeline_parallel {
namespace {

/// Calls one of them so many times.
template <class Phase>
void repeat(std::size_t times, const Phase& phase) {
  for (std::size_t i = 0; i < times; ++i) phase();
}

RankList zero_bubble_list(std::size_t before_first_b, std::size_t most_kept,
                          std::size_t micro_batches) {
  ListBuilder list(1, micro_batches);
  while (list.forwards() < std::min(before_first_b, micro_batches)) list.forward();
  while (list.backwards() < micro_batches) {
    list.backward_input();
    const std::size_t kept = list.forwards() - list.backwards() + list.waiting();
    const bool is_last_forward_over = list.forwards() == micro_batches;
    if (kept == most_kept || is_last_forward_over) list.backward_weight();
    if (!is_last_forward_over) list.forward();
  }
  while (list.waiting() > 0) list.backward_weight();
  return list;
}

}  // namespace

RankList zero_bubble_h1_list(const InterleavedRank& rank, std::size_t micro_batches) {
  return zero_bubble_list(rank.stages - rank.stage, rank.stages, micro_batches);
}

RankList zero_bubble_h2_list(const InterleavedRank& rank, std::size_t micro_batches) {
  return zero_bubble_list(2 * (rank.stages - rank.stage) - 1, 2 * rank.stages - 1, micro_batches);
}

RankList zb_v_list(const InterleavedRank& rank, std::size_t micro_batches) {
  const auto [stage, stages, chunks] = rank;
  const std::size_t full = std::max(micro_batches, 2 * stages - 1);
  const std::size_t behind = stages - stage;
  ListBuilder list(chunks, micro_batches);
  const auto backward = [&](std::size_t chunk) {
    list.backward_input(chunk);
    list.backward_weight();
  };
  repeat(2 * behind - 1, [&] { list.forward(0); });
  repeat(stage, [&] {
    list.forward(1);
    list.forward(0);
  });
  repeat(behind, [&] {
    list.forward(1);
    backward(1);
  });
  while (list.forwards(1) < full) {
    if (list.forwards(0) < full) list.forward(0);
    backward(0);
    list.forward(1);
    backward(1);
  }
  repeat(stage, [&] {
    list.backward_input(0);
    list.backward_input(1);
  });
  repeat(behind, [&] {
    list.backward_input(0);
    list.backward_weight();
  });
  while (list.waiting() > 0) list.backward_weight();
  return list;
}

RankList dual_pipe_v_list(const InterleavedRank& rank, std::size_t micro_batches) {
  const auto [stage, stages, chunks] = rank;
  const std::size_t full = std::max(micro_batches, 2 * stages);
  const std::size_t behind = stages - stage - 1;
  ListBuilder list(chunks, micro_batches);
  repeat(2 * behind, [&] { list.forward(0); });
  repeat(stage + 1, [&] {
    list.forward(0);
    list.forward(1);
  });
  repeat(behind, [&] {
    list.backward_input(1);
    list.backward_weight();
    list.forward(1);
  });
  for (std::size_t i = 0; i < full - 2 * stages + stage + 1; ++i) {
    // The last rank is the first that passes backward: overlapping would hold up all others.
    if (i == 0 && behind == 0) {
      list.forward(0);
      list.backward(1);
    } else {
      list.overlapped(0, 1);
    }
    list.overlapped(1, 0);
  }
  repeat(behind, [&] {
    list.backward(1);
    list.overlapped(1, 0);
  });
  // In the second half of the way out, W waits for the bubbles of the end.
  const std::size_t passes = 2 * (stage + 1);
  for (std::size_t i = 0; i < passes; ++i) {
    const std::size_t chunk = i % 2 == 0 ? 1 : 0;
    if (i <= stage) {
      list.backward(chunk);
    } else {
      list.backward_input(chunk);
    }
  }
  repeat(behind, [&] {
    list.backward_weight();
    list.backward_input(0);
  });
  while (list.waiting() > 0) list.backward_weight();
  return list;
}

}  // namespace ultra::pipeline_parallel
