#pragma once
/// @file
/// The schedules: a row says all that the program knows about one.
///
/// A new one is a list of passes, and its row in schedules.cpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "chapters/07_pipeline_parallel/lists/interleaved_list.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief A rank's passes, and which of them overlap.
struct RankList {
  train::StepSchedule list;             ///< without messages and updates
  std::vector<std::size_t> pairs = {};  ///< as PipelineSchedule::overlapped has it of a rank

  /// @brief By default nothing overlaps.
  RankList(train::StepSchedule passes, std::vector<std::size_t> overlapped = {})
      : list(std::move(passes)), pairs(std::move(overlapped)) {}
};

/// @brief The parts of a rank, and where they stand.
enum class Chunks : std::uint8_t {
  kOne,   ///< one: Placement::loop()
  kLoop,  ///< as many as "name:V" says: Placement::loop()
  kV,     ///< two: Placement::v_shape()
};

/// @brief A schedule, for any number of stages and micro-batches.
struct Schedule {
  std::string_view name;                                                     ///< "1f1b"
  RankList (*list)(const InterleavedRank& rank, std::size_t micro_batches);  ///< of one rank
  Chunks chunks = Chunks::kOne;                                              ///< of each rank
  bool in_groups = false;  ///< micro-batches must be a multiple of the stages
  bool updates = false;    ///< each stage updates its weights after every backward pass
  /// The most activations that a stage keeps, of a micro-batch in one chunk each. Null: unknown.
  std::size_t (*peak)(const InterleavedRank& rank, std::size_t micro_batches) = nullptr;
  /// Micro-batches from which on bubble_seconds() holds. Null: any number.
  std::size_t (*fills)(std::size_t stages) = nullptr;
  /// Whether the paper counts its bubble from a rank's first action to its last.
  bool counts_span = false;
};

/// @brief All schedules: those of ScheduleKind in its order, then those known by name alone.
[[nodiscard]] std::span<const Schedule> schedule_rows();

}  // namespace ultra::pipeline_parallel
