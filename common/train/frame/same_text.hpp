#pragma once
/// @file
/// expect_same_text: all ranks train on one text, wherever each of them reads it.

#include "common/comm/communicator.hpp"
#include "common/data/dataset.hpp"

namespace ultra::train {

/// @brief Checks that the texts of all ranks have the same bytes, by their sizes and hashes; what
/// they are called, and where they lie, may differ. Collective.
/// @throws ConfigError that names a rank with another text than rank 0's, and both texts; the same
/// on every rank.
void expect_same_text(const Communicator& world, const data::Dataset& dataset);

}  // namespace ultra::train
