#pragma once
/// @file
/// What a backend must offer: start ranks, and give each its transport and its monitor.

#include <functional>
#include <memory>

#include "common/comm/engine/rank_monitor.hpp"
#include "common/comm/transport.hpp"

namespace ultra::comm {

/// @brief What one rank runs: `transport` is the world's. Throws what the rank threw.
using RankBody =
    std::function<void(std::unique_ptr<Transport> transport, std::shared_ptr<RankMonitor> monitor)>;

}  // namespace ultra::comm
