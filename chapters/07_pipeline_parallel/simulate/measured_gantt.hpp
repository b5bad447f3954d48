#pragma once
/// @file
/// The costs of a real run, for the simulator: what --executed-gantt writes.

#include <string>

#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"

namespace ultra::pipeline_parallel {

/// @brief The mean seconds that the actions of a run took, by part of the model; free links.
///
/// A run that has only whole backward passes says nothing about B and W: each gets half of them.
/// @param gantt  the text of the file.
/// @param path   for messages.
/// @throws ConfigError when it is no such file, or a time is not one that a pass can take: with the
/// list and the number.
[[nodiscard]] CostModel costs_of_gantt(const std::string& gantt, const std::string& path);

}  // namespace ultra::pipeline_parallel
