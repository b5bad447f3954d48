#pragma once
/// @file
/// ScheduleChoice: which schedule of a pipeline, as --schedule names it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ultra::pipeline_parallel {

struct Schedule;  // lists/schedules.hpp

/// @brief The schedules whose closed forms exercise 07.5 writes; in numbers, rows of the table of
/// all. Later rows have no name here: parse_schedule_choice() finds them.
enum class ScheduleKind : std::uint8_t {
  kNaive,           ///< one micro-batch after the other through all stages
  kAfab,            ///< all forward, all backward; Huang et al. 2019, arXiv 1811.06965 (GPipe)
  kOneFOneB,        ///< Narayanan et al. 2019 (PipeDream-Flush), arXiv 2006.09503
  kInterleaved,     ///< Narayanan et al. 2021, arXiv 2104.04473, section 2.2
  kZeroBubbleH1,    ///< Qi et al. 2023, arXiv 2401.10241, section 2.1.1
  kZeroBubbleH2,    ///< the same, section 2.1.2
  kZbV,             ///< the same, section 6
  kDualPipeV,       ///< DeepSeek-V3, 2024, arXiv 2412.19437, section 3.2.1; the V of its repository
  kPipedreamAsync,  ///< Narayanan et al. 2019, arXiv 1806.03377: an update after every backward
};

/// @brief A schedule, and the number of chunks where it can be chosen.
struct ScheduleChoice {
  ScheduleKind kind = ScheduleKind::kOneFOneB;  ///< which
  std::size_t interleaved_chunks = 2;           ///< per rank; of schedules with a loop only

  /// @brief All that is known of it.
  [[nodiscard]] const Schedule& row() const;
  /// @brief As on the command line: "1f1b", "interleaved:2".
  [[nodiscard]] std::string str() const;
  /// @brief Chunks of each rank.
  [[nodiscard]] std::size_t chunks() const;
  /// @brief Whether the two chunks of a rank are at both ends of a micro-batch's way.
  [[nodiscard]] bool is_v_shaped() const;
  /// @brief Whether the number of chunks can be chosen.
  [[nodiscard]] bool takes_chunks() const;
  /// @brief Whether there is a list for so many micro-batches.
  [[nodiscard]] bool takes(std::size_t micro_batches, std::size_t stages) const;
  bool operator==(const ScheduleChoice&) const = default;
};

/// @brief What str() writes; "interleaved" alone has two chunks, as "breadth-first".
/// @throws ConfigError that lists the schedules there are.
[[nodiscard]] ScheduleChoice parse_schedule_choice(std::string_view text);

/// @brief All that there are, with two chunks where that can be chosen.
[[nodiscard]] std::span<const ScheduleChoice> all_schedules();

/// @brief Those of ScheduleKind, which have closed forms.
[[nodiscard]] std::span<const ScheduleChoice> published_schedules();

/// @brief "naive, afab, 1f1b, interleaved:V, ...", for messages and --help.
[[nodiscard]] std::string schedule_names();

}  // namespace ultra::pipeline_parallel
