#pragma once
/// @file
/// The table of number formats that `--formats` prints.

#include <string>

namespace ultra::mixed_precision {

/// @brief Bits, range and spacing of each format, one line each, and what a block of MX adds.
[[nodiscard]] std::string format_table();

}  // namespace ultra::mixed_precision
