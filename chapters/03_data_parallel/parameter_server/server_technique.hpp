#pragma once
/// @file
/// Parameter servers as a program: ranks besides the replicas that keep the weights.
///
/// | part of training          | becomes                                              | where                     |
/// |---------------------------|------------------------------------------------------|---------------------------|
/// | K of the ranks            | servers: they run no step, but update slices         | sync_server, async_server |
/// | the exchange of gradients | pushes to the servers, pulls of the new weights      | push_pull                 |
/// | the optimizer             | the servers'                                         | parameter_server          |

#include <memory>

#include "common/train/cli/technique.hpp"

namespace ultra::data_parallel {

/// @brief The flags of parameter servers, and what is a replica's of a training.
[[nodiscard]] std::unique_ptr<train::Technique> parameter_servers();

/// @brief Makes a rank's worker, a replica's or a server's, in a program with parameter_servers().
/// Collective over the world.
[[nodiscard]] std::unique_ptr<train::Worker> worker_with_servers(const train::Setup& setup,
                                                                 const train::RunContext& context);

}  // namespace ultra::data_parallel
