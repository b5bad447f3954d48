#pragma once
/// @file
/// --scale-tp: how throughput changes with the ranks that share each matrix, instead of training.

#include <memory>

#include "common/train/program/technique.hpp"

namespace ultra::tensor_parallel {

/// @brief The prediction of throughput over tp, as a technique that answers instead of training.
[[nodiscard]] std::unique_ptr<train::Technique> tp_scaling_prediction();

}  // namespace ultra::tensor_parallel
