#pragma once
/// @file
/// Parameter servers as a technique: ranks beside the replicas that keep the weights.
///
/// | part of training          | becomes                                              | where                     |
/// |---------------------------|------------------------------------------------------|---------------------------|
/// | K of the ranks            | servers: they run no step, but update slices         | sync_server, async_server |
/// | the exchange of gradients | pushes to the servers, pulls of the new weights      | push_pull                 |
/// | the optimizer             | the servers'                                         | served_weights            |

#include <cstddef>
#include <memory>

#include "common/train/program/technique.hpp"

namespace ultra::data_parallel {

/// @brief --sync parameter-server, and --straggler.
[[nodiscard]] std::unique_ptr<train::Technique> parameter_servers();

}  // namespace ultra::data_parallel
