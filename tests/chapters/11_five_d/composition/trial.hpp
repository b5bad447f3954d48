#pragma once
/// @file
/// A configuration's training against one rank's.

#include <string>

#include "tests/chapters/11_five_d/composition/configuration.hpp"

namespace ultra::five_d::test {

using namespace ultra::test;

/// Relative distance in f64 between layouts of the same training.
inline constexpr double kRelative = 1e-10;

/// @brief Trains on as many ranks as the configuration has, and alone, and compares losses,
/// gradient norms, validation losses and weights, and what all ranks report.
/// @return what differs, or the error of a rank; empty: nothing does.
[[nodiscard]] std::string difference_from_one_rank(const Configuration& configuration);

/// @brief Leaves out flags as long as the configuration still differs.
/// @return the smallest configuration found, and how it differs.
[[nodiscard]] std::pair<Configuration, std::string> shrunk(Configuration configuration,
                                                           std::string difference);

}  // namespace ultra::five_d::test
