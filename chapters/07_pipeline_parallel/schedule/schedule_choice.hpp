#pragma once
/// @file
/// ScheduleChoice: which schedule of a pipeline, as --schedule names it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ultra::pipeline_parallel {

/// @brief The schedules that papers have published.
enum class ScheduleKind : std::uint8_t {
  kNaive,           ///< one micro-batch after the other through all stages
  kAfab,            ///< all forward, all backward; Huang et al. 2019, arXiv 1811.06965 (GPipe)
  kOneFOneB,        ///< Narayanan et al. 2019 (PipeDream-Flush), arXiv 2006.09503
  kInterleaved,     ///< Narayanan et al. 2021, arXiv 2104.04473, section 2.2
  kZeroBubbleH1,    ///< Qi et al. 2023, arXiv 2401.10241, section 2.1.1
  kZeroBubbleH2,    ///< the same, section 2.1.2
  kZbV,             ///< the same, section 6
  kDualPipeV,       ///< DeepSeek-V3, 2024, arXiv 2412.19437, section 3.2.1; the V of its repository
  kPipedreamAsync,  ///< Narayanan et al. 2019, arXiv 1806.03377: an update behind every backward
};

/// @brief A schedule, and the number of chunks where it can be chosen.
struct ScheduleChoice {
  ScheduleKind kind = ScheduleKind::kOneFOneB;  ///< which
  std::size_t interleaved_chunks = 2;           ///< per rank; of kInterleaved only

  /// @brief As on the command line: "1f1b", "interleaved:2".
  [[nodiscard]] std::string str() const;
  /// @brief Chunks of each rank.
  [[nodiscard]] std::size_t chunks() const;
  /// @brief Whether the two chunks of a rank stand at both ends of the way.
  [[nodiscard]] bool is_v_shaped() const {
    return kind == ScheduleKind::kZbV || kind == ScheduleKind::kDualPipeV;
  }
  /// @brief Equal when both are.
  bool operator==(const ScheduleChoice&) const = default;
};

/// @brief What str() writes; "interleaved" alone has two chunks.
/// @throws ConfigError that lists the schedules there are.
[[nodiscard]] ScheduleChoice parse_schedule_choice(std::string_view text);

/// @brief All of them, kInterleaved with two chunks.
[[nodiscard]] std::span<const ScheduleChoice> published_schedules();

/// @brief "naive, afab, 1f1b, interleaved:V, ...", for messages and --help.
[[nodiscard]] std::string schedule_names();

}  // namespace ultra::pipeline_parallel
