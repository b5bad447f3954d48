#pragma once
/// @file
/// All ladders of the chapter.

#include <memory>
#include <string_view>
#include <vector>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief All ladders, in the order of the chapter's text.
[[nodiscard]] std::vector<std::unique_ptr<Ladder>> all_ladders();

}  // namespace ultra::ladders
