#include "chapters/07_pipeline_parallel/lists/schedules.hpp"

#include <algorithm>

#include "chapters/07_pipeline_parallel/lists/afab_list.hpp"
#include "chapters/07_pipeline_parallel/lists/one_f_one_b_list.hpp"
#include "chapters/07_pipeline_parallel/lists/zero_bubble_lists.hpp"

namespace ultra::pipeline_parallel {
namespace {

using Rank = const InterleavedRank&;

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
