#pragma once
/// @file
/// The ladder rope: rotary position embedding of queries and keys.

#include <memory>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Rotary position embedding in fp32, in place; odd seeds turn forward, even ones back;
/// sizes are tokens x query heads x key heads x pairs.
[[nodiscard]] std::unique_ptr<Ladder> rope_ladder();

}  // namespace ultra::ladders
