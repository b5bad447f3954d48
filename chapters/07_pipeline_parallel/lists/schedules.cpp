#include "chapters/07_pipeline_parallel/lists/schedules.hpp"

#include <algorithm>
#include <cstddef>
#include <queue>

#include "chapters/07_pipeline_parallel/lists/afab_list.hpp"
#include "chapters/07_pipeline_parallel/lists/interleaved_list.hpp"
#include "chapters/07_pipeline_parallel/lists/one_f_one_b_list.hpp"
#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {
namespace {

using Rank = const InterleavedRank&;
using train::ActionKind;

/// Appends passes, of each kind and chunk micro-batches in their order: "the next forward pass of this
/// chunk".
///
/// A schedule that fills the pipeline may be written for more micro-batches than there are: passes
/// of those that are missing are left out.
class ListBuilder {
 public:
  ListBuilder(std::size_t chunks, std::size_t micro_batches)
      : micro_batches_(micro_batches), forwards_(chunks, 0), backwards_(chunks, 0) {}

  /// F: the next forward pass of a chunk.
  void forward(std::size_t chunk = 0) { append(ActionKind::kForward, forwards_[chunk]++, chunk); }
  /// BW: the next backward pass, whole.
  void backward(std::size_t chunk = 0) {
    append(ActionKind::kBackward, backwards_[chunk]++, chunk);
  }
  /// B: the next backward pass for the input; its W waits.
  void backward_input(std::size_t chunk = 0) {
    const std::size_t micro_batch = backwards_[chunk]++;
    append(ActionKind::kBackwardInput, micro_batch, chunk);
    waiting_.push(
        {.kind = ActionKind::kBackwardWeight, .micro_batch = micro_batch, .chunk = chunk});
  }
  /// W: of those that wait, the one that has waited longest, of whatever chunk.
  void backward_weight() {
    ensure(!waiting_.empty(), "a W comes after its B");
    append(ActionKind::kBackwardWeight, waiting_.front().micro_batch, waiting_.front().chunk);
    waiting_.pop();
  }
  /// F and BW of these chunks, overlapped.
  void overlapped(std::size_t forward_chunk, std::size_t backward_chunk) {
    const std::size_t index = list_.size();
    const bool has_forward =
        append(ActionKind::kForward, forwards_[forward_chunk]++, forward_chunk);
    const bool has_backward =
        append(ActionKind::kBackward, backwards_[backward_chunk]++, backward_chunk);
    if (has_forward && has_backward) pairs_.push_back(index);
  }

  /// Passes so far, with those that were left out.
  [[nodiscard]] std::size_t forwards(std::size_t chunk = 0) const { return forwards_[chunk]; }
  [[nodiscard]] std::size_t backwards(std::size_t chunk = 0) const { return backwards_[chunk]; }
  /// W that wait.
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

  /// What was appended.
  operator RankList() const { return {list_, pairs_}; }

 private:
  bool append(ActionKind kind, std::size_t micro_batch, std::size_t chunk) {
    if (micro_batch >= micro_batches_) return false;
    list_.push_back({.kind = kind, .micro_batch = micro_batch, .chunk = chunk});
    return true;
  }

  std::size_t micro_batches_;           // that there are
  std::vector<std::size_t> forwards_;   // by chunk
  std::vector<std::size_t> backwards_;  // by chunk
  std::queue<train::Action> waiting_;
  train::StepSchedule list_;
  std::vector<std::size_t> pairs_;
};

// ZB-H1 and ZB-H2: the gradients of weights wait until there is nothing better to do.
//
// A rank passes micro-batches forward, and B backward as soon as it can; W fills what would be a
// bubble, or comes when too many micro-batches would be kept otherwise.
// Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 2.1.

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

/// A rank's passes, of its only chunk; it keeps p micro-batches, as 1F1B's first rank.
RankList zero_bubble_h1_list(const InterleavedRank& rank, std::size_t micro_batches) {
  return zero_bubble_list(rank.stages - rank.stage, rank.stages, micro_batches);
}

/// The same, with 2 p - 1 micro-batches: as many as the way there and back takes.
RankList zero_bubble_h2_list(const InterleavedRank& rank, std::size_t micro_batches) {
  return zero_bubble_list(2 * (rank.stages - rank.stage) - 1, 2 * rank.stages - 1, micro_batches);
}

/// ZB-V: no bubble when F, B and W take as long, with the activations of 1F1B.
///
/// Chunk 0 is on the way there, chunk 1 on the way back. When the way there is full, each rank
/// alternates F B W of one chunk with F B W of the other.
/// Source: Qi et al. 2023, arXiv 2401.10241, section 6 and figure 7; phases as in PyTorch's
/// ScheduleZBVZeroBubble.
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

/// DualPipe-V: forward passes of one chunk overlap with backward passes of the other.
///
/// The half of DualPipe that "cut in half" leaves: the second direction is the way back.
/// Source: DeepSeek-V3, 2024, arXiv 2412.19437, section 3.2.1; the phases of DualPipeV in
/// deepseek-ai/DualPipe.
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

RankList naive_list(Rank, std::size_t m) {
  ListBuilder list(1, m);
  while (list.backwards() < m) {
    list.forward();
    list.backward();
  }
  return list;
}

RankList one_f_one_b(Rank r, std::size_t m) { return one_f_one_b_list(r.stage, r.stages, m); }

std::size_t one_f_one_b_peak(Rank r, std::size_t m) { return std::min(r.stages - r.stage, m); }

/// The warm-up and one more.
std::size_t interleaved_peak(Rank r, std::size_t m) {
  return std::min((r.chunks - 1) * r.stages + 2 * (r.stages - r.stage - 1) + 1, r.chunks * m);
}

std::size_t v_shaped_peak(std::size_t most, std::size_t stage, std::size_t m) {
  return std::min({most, m + stage + 1, 2 * m});
}

// In the order of ScheduleKind, then whatever has a name only. r: the rank; m micro-batches; p
// stages. The peaks are of the papers; those of a step that does not fill the pipeline are counted.
constexpr Schedule kSchedules[] = {
    {.name = "naive",
     .list = naive_list,
     .peak = [](Rank, std::size_t) -> std::size_t { return 1; }},
    {.name = "afab",
     .list = [](Rank, std::size_t m) -> RankList { return afab_list(m); },
     .peak = [](Rank, std::size_t m) { return m; }},
    {.name = "1f1b", .list = one_f_one_b, .peak = one_f_one_b_peak},
    {.name = "interleaved",
     .list = [](Rank r, std::size_t m) -> RankList { return interleaved_list(r, m); },
     .chunks = Chunks::kLoop,
     .in_groups = true,
     .peak = interleaved_peak},
    {.name = "zero-bubble-h1",
     .list = zero_bubble_h1_list,
     .peak = [](Rank r, std::size_t m) { return std::min(r.stages, m); },
     .fills = [](std::size_t p) { return p; }},
    {.name = "zero-bubble-h2",
     .list = zero_bubble_h2_list,
     .peak = [](Rank r, std::size_t m) { return std::min(2 * r.stages - 1, m); },
     .fills = [](std::size_t p) { return 2 * p - 1; },
     .counts_span = true},
    {.name = "zb-v",
     .list = zb_v_list,
     .chunks = Chunks::kV,
     .peak = [](Rank r, std::size_t m) { return v_shaped_peak(2 * r.stages, r.stage, m); },
     .fills = [](std::size_t p) { return 2 * p - 1; },
     .counts_span = true},
    {.name = "dualpipe-v",
     .list = dual_pipe_v_list,
     .chunks = Chunks::kV,
     .peak = [](Rank r, std::size_t m) { return v_shaped_peak(2 * r.stages + 1, r.stage, m); },
     .fills = [](std::size_t p) { return 2 * p; }},
    {.name = "pipedream-async", .list = one_f_one_b, .updates = true, .peak = one_f_one_b_peak},
    {.name = "breadth-first",
     .list = [](Rank r, std::size_t m) -> RankList { return breadth_first_list(r.chunks, m); },
     .chunks = Chunks::kLoop,
     .peak = [](Rank r, std::size_t m) { return r.chunks * m; }},
};

}  // namespace

std::span<const Schedule> schedule_rows() { return kSchedules; }

}  // namespace ultra::pipeline_parallel
