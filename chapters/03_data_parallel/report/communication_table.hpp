#pragma once
/// @file
/// The table that says what communication cost a run, and what of it was hidden.

#include <string>

#include "common/train/report/metrics.hpp"

namespace ultra::data_parallel {

/// @brief One line per rank: bytes sent, seconds of computation, of communication, and of the part of
/// the communication that the rank waited for.
///
/// Communication counts as long as at least one operation was under way; what is hidden went on
/// behind computation.
[[nodiscard]] std::string format_communication_table(const train::TrainResult& result);

}  // namespace ultra::data_parallel
