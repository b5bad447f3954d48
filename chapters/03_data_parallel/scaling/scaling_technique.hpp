#pragma once
/// @file
/// A prediction as a technique, by the name that two tables of other chapters use.

#include "common/train/cli/prediction.hpp"

namespace ultra::data_parallel {

using train::Prediction;

}  // namespace ultra::data_parallel
