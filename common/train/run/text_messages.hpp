#pragma once
/// @file
/// Texts between ranks: what a run tells rank 0 at its end, and what rank 0 tells the others.
///
/// By send and recv alone, so that they work whatever algorithms the collectives use.

#include <string>
#include <vector>

#include "common/comm/communicator.hpp"

namespace ultra::train {

/// @brief The texts of all ranks, in their order, on rank 0; an empty list elsewhere.
///
/// Collective. Cost: two messages to rank 0 from each other rank, of 8 bytes and of the text.
[[nodiscard]] std::vector<std::string> gather_texts(const Communicator& world,
                                                    const std::string& text);

/// @brief Rank 0's text, on every rank.
///
/// Collective. Cost: two messages from rank 0 to each other rank, of 8 bytes and of the text.
/// @param text  ignored elsewhere than on rank 0.
[[nodiscard]] std::string broadcast_text(const Communicator& world, const std::string& text);

}  // namespace ultra::train
