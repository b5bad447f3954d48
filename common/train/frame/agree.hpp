#pragma once
/// @file
/// agree: all ranks go on, or all end with the same error.

#include <functional>

#include "common/comm/communicator.hpp"

namespace ultra::train {

/// @brief Calls `fn` on this rank; returns when it has succeeded on every rank.
///
/// For what may work on one rank and not on another: files, devices. A ConfigError or FileError of
/// the lowest rank that has one is thrown on every rank, its type and message kept; the message says
/// which rank it was unless it was rank 0. Other errors are not agreed on: they end this rank, and
/// through it the others. Collective.
void agree(const Communicator& world, const std::function<void()>& fn);

}  // namespace ultra::train
