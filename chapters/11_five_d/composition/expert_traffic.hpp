#pragma once
/// @file
/// What ranks of any mesh send to experts and back.

#include <cstddef>
#include <optional>
#include <vector>

#include "common/train/cli/technique.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::five_d {

/// @brief Bytes that all ranks together sent to other ranks' experts and back, by chapter 08's closed
/// form (expert_parallel::exchanged_bytes) for the choices that each rank has counted. Exact.
/// @param ranks  of a training that has ended, by number.
/// @param steps  that it made.
/// @return nothing where experts have a capacity: choices that were dropped are not counted by expert.
[[nodiscard]] std::optional<std::size_t> expert_bytes(const train::Setup& setup,
                                                      const std::vector<train::RankSummary>& ranks,
                                                      std::size_t steps);

}  // namespace ultra::five_d
