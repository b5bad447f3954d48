#pragma once
/// @file
/// --scale: how far data parallelism would scale, instead of training.

#include <memory>

#include "common/train/program/technique.hpp"

namespace ultra::data_parallel {

/// @brief The prediction of scaling, as a technique that answers instead of training.
[[nodiscard]] std::unique_ptr<train::Technique> scaling_prediction();

}  // namespace ultra::data_parallel
