#pragma once
/// @file
/// How much one combination takes.

#include <cstddef>

namespace ultra::comm {

/// @brief Sources and targets of one MemoryOps::combine_all on a device, at most.
[[nodiscard]] std::size_t most_combined_at_once();

}  // namespace ultra::comm
