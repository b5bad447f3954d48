#pragma once
/// @file
/// The search: all layouts of a model on so many GPUs, those that fit, fastest first.

#include <cstddef>
#include <functional>
#include <vector>

#include "chapters/11_five_d/planner/search/restriction.hpp"
#include "chapters/11_five_d/planner/time/prediction.hpp"

namespace ultra::planner {

/// @brief What is searched.
struct SearchSpace {
  std::size_t gpus = 1;              ///< dp pp cp tp
  std::size_t most_tp = 16;          ///< ranks of tp: two nodes of 8
  std::size_t most_cp = 64;          ///< ranks of cp
  std::size_t least_context = 4096;  ///< tokens of a sequence that a rank of cp has at least
  std::vector<std::size_t> micro_batches = {1, 2, 4, 8, 16};  ///< b
  std::vector<pipeline_parallel::ScheduleKind> schedules = {
      pipeline_parallel::ScheduleKind::kOneFOneB, pipeline_parallel::ScheduleKind::kInterleaved,
      pipeline_parallel::ScheduleKind::kZeroBubbleH1, pipeline_parallel::ScheduleKind::kZbV,
      pipeline_parallel::ScheduleKind::kDualPipeV};  ///< of pipelines
  std::vector<memory::Recompute> recomputations = {
      memory::Recompute::kNone, memory::Recompute::kSelective, memory::Recompute::kFull};  ///< all
  zero::ZeroStage most_zero = zero::ZeroStage::kParameters;  ///< the highest stage
  bool offloads = true;  ///< to the host's memory what does not fit otherwise
  memory::NumberFormats precision = memory::NumberFormats::kBf16MixedFp32Grads;  ///< of all layouts
  bool tables_fill_chunks = true;                                                ///< see Software
  std::vector<Outermost> orders = {Outermost::kData};                            ///< of ranks
  std::size_t node = 1;                                                          ///< GPUs of one
  bool hybrid = false;    ///< each node may have a copy of ZeRO-3's states
  Restriction only = {};  ///< of all of this, what is asked about
};

/// @brief How far off a prediction may be, as a part: of steps that others measured with programs for
/// which there is a preset, half are off by less.
inline constexpr double kTypicalError = 0.1;

/// @brief What came of it.
struct SearchResult {
  std::vector<Prediction> best;             ///< fastest first, as many as were asked for
  std::size_t possible = 0;                 ///< layouts that can run at all
  std::size_t too_large = 0;                ///< of them, those that do not fit
  std::size_t smallest_model_parallel = 0;  ///< tp x pp of the smallest replica that fits; 0: none
  std::size_t near = 0;                     ///< that fit, within kTypicalError of the fastest
  std::vector<Layout> nearly;               ///< the one that lacks least, when none fits
};

/// @brief Every layout of the space that can run.
///
/// All products dp pp cp tp = gpus, with each ep that divides experts and dp cp; ZeRO 0 to 3 where
/// there is somebody to share with, ZeRO-3 inside the nodes as well; both orders of ranks where their
/// groups lie elsewhere; 1f1b, interleaved chunks that divide a stage's blocks, or those with the tables' two places, zero-bubble-h1,
/// zb-v and dualpipe-v on pipelines; each recomputation; all-gather, ring and Ulysses where there is cp. Sequences are split between the matrices
/// wherever there is tp. ZeRO-2 and 3 of pipelines are left out: they exchange for every
/// micro-batch what a pipeline has many of.
/// @param visit  gets each.
/// @throws Interrupted when the program is told to stop.
void for_each_layout(const Workload& work, const SearchSpace& space,
                     const std::function<void(const Layout&)>& visit);

/// @brief The `count` fastest layouts that fit. One that does not may, with activations, the optimizer's
/// states or both in the host's memory: the first of these that fits is taken.
/// @throws Interrupted when the program is told to stop.
/// Cost: one memory estimate for each possible layout, one closed form for each that fits, and one
/// simulated pipeline for each that is nearly as fast as the best.
[[nodiscard]] SearchResult search_layouts(const Question& question, const SearchSpace& space,
                                          std::size_t count);

}  // namespace ultra::planner
