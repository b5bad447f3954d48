#pragma once
/// @file
/// How far a measured number of bytes is from a predicted one, in words.

#include <cstddef>
#include <string>

namespace ultra {

/// @brief "exact" when both are equal, else how much larger the measured one is: "+1.25%".
/// @param decimals  digits after the point.
[[nodiscard]] std::string format_difference(std::size_t measured, std::size_t predicted,
                                            int decimals = 2);

}  // namespace ultra
