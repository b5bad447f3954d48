#pragma once
/// @file
/// Every technique of the book in one list: training in five dimensions.

#include "common/train/program/run_techniques.hpp"

namespace ultra::five_d {

/// @brief The techniques of all chapters, in the order of the book.
[[nodiscard]] train::Techniques techniques();

}  // namespace ultra::five_d
