#pragma once
/// @file
/// The tiny training that a layout is tried with.

#include <string>

#include "tests/devices/layouts.hpp"

namespace ultra::devices {

/// @brief A text of its own: the machine that runs this may not have the workbook's.
[[nodiscard]] std::string text_of_numbers();

/// @brief The flags of a run, without its text and device; what the layout says of the model wins.
/// @param more  flags beside the layout's and the model's.
[[nodiscard]] std::string flags_of(const Layout& layout, const std::string& more);

}  // namespace ultra::devices
