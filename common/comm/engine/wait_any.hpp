#pragma once
/// @file
/// wait_any: waits for the first of several operations, as a server does for its clients.

#include <cstddef>
#include <span>

#include "common/comm/work.hpp"

namespace ultra {

/// @brief Returns the index of a work that has ended, as soon as one has; it becomes a handle on
/// nothing. Of several, it is the one that ended first: nobody is kept waiting for ever.
///
/// Handles on nothing are passed over, so a caller may put the next operation into the place of the
/// one that has ended, or leave it: called works.size() times, each is returned once.
/// @param works  of one rank.
/// @throws What Work::wait throws; the work that failed is then a handle on nothing, too. ConfigError
/// when `works` has nothing under way to wait for (it would be for ever) or belongs to several ranks.
/// Cost: one look at each work when one has ended before; waiting, what Work::wait costs.
[[nodiscard]] std::size_t wait_any(std::span<Work> works);

}  // namespace ultra
