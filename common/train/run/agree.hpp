#pragma once
/// @file
/// agree: all ranks go on, or all end with the same error. expect_same: they say the same.
/// expect_same_text: they train on one text, wherever each of them reads it.

#include <functional>
#include <string>

#include "common/comm/communicator.hpp"
#include "common/data/dataset.hpp"

namespace ultra::train {

/// @brief Calls `fn` on this rank; returns when it has succeeded on every rank.
///
/// For what may work on one rank and not on another: files, devices. A ConfigError or FileError of
/// the lowest rank that has one is thrown on every rank, its type and message kept; the message says
/// which rank it was unless it was rank 0. Other errors are not agreed on: they end this rank, and
/// through it the others. Collective.
void agree(const Communicator& world, const std::function<void()>& fn);

/// Compares what a rank says with what rank 0 says: the message about a difference; empty: none.
using Compare =
    std::function<std::string(int rank, const std::string& said, const std::string& by_rank_0)>;

/// @brief Checks that all ranks say the same. Collective.
///
/// Cost: what it says travels from each other rank to rank 0.
/// @param compare  called on rank 0, for one other rank after the other until two differ.
/// @throws ConfigError with its message, on every rank.
void expect_same(const Communicator& world, const std::string& said, const Compare& compare);

/// @brief Checks that the texts of all ranks have the same bytes, by their sizes and hashes; what
/// they are called, and where they lie, may differ. Collective.
/// @throws ConfigError that names a rank with another text than rank 0's, and both texts; the same
/// on every rank.
void expect_same_text(const Communicator& world, const data::Dataset& dataset);

}  // namespace ultra::train
