#pragma once
/// @file
/// Which features the table of --combinations says do not go together.

#include <vector>

#include "common/train/options/conflict.hpp"
#include "tests/chapters/11_five_d/composition/coverage.hpp"

namespace ultra::five_d::test {

using namespace ultra::test;

/// @brief The rows of the program's table, of flags in general.
[[nodiscard]] std::vector<train::Conflict> table_of_combinations();

/// @brief Whether a row of the table is of two of these features, or of what they need.
[[nodiscard]] bool excluded(const std::vector<train::Conflict>& table,
                            const std::vector<Feature>& some);

}  // namespace ultra::five_d::test
