#pragma once
/// @file
/// Schedules in files, and the texts that describe them.

#include <string>

#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief What a file of at most 64 MiB holds.
/// @param flag  that names the file, for messages.
/// @param kind  of text that is expected: "a text with a line for each stage".
/// @throws FileError when the file is larger or cannot be read: see text_of_file().
[[nodiscard]] std::string text_from_file(const std::string& flag, const std::string& path,
                                         const std::string& kind);

/// @brief The schedule that a file describes: see schedule_text.hpp.
/// @param flag  that names the file, for messages.
/// @throws FileError when the file cannot be read; ConfigError as schedule_from_text() does.
[[nodiscard]] PipelineSchedule schedule_from_file(const std::string& flag, const std::string& path);

}  // namespace ultra::pipeline_parallel
