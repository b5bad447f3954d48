#pragma once
/// @file
/// Into which micro-batches the flags cut a replica's share of the batch.

#include <cstddef>
#include <vector>

#include "common/train/options/options.hpp"

namespace ultra::data_parallel {

/// @brief Sequences of the micro-batches of the first replica, whose share of the batch is a
/// largest one.
[[nodiscard]] std::vector<std::size_t> micro_batch_sizes(const train::TrainOptions& train,
                                                         std::size_t replicas);

}  // namespace ultra::data_parallel
