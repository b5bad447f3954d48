#pragma once
/// @file
/// run_ranks: the same function once per rank, on threads of this process or under mpirun.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/comm/communicator.hpp"
#include "common/comm/links/slow_link.hpp"

namespace ultra {

/// @brief How the ranks of a run communicate; the same on every rank.
struct RankOptions {
  std::chrono::duration<double> timeout{60};  ///< a wait that lasts longer is an error
  Checking checking = Checking::kOn;          ///< compare kind, count, dtype, root and order
  Progress progress = Progress::kThread;      ///< who moves operations along meanwhile
  std::optional<LinkSpeed> link;              ///< slows messages between ranks down to this
  /// Steps of the collectives; nullptr means the platform's own.
  std::shared_ptr<const comm::CollectiveAlgorithms> algorithms;
  /// A library in NCCL's place, which emulated devices use too: for tests. Empty: NCCL, on GPUs.
  std::string nccl_library = {};
};

/// @brief Calls `fn` once per rank of a world of `world_size` ranks and returns when all have ended.
///
/// Ranks are threads of this process; in a process started by mpirun they are MPI's processes, and
/// the first `world_size` of them run `fn`. Ends with the first error that a rank threw, its type
/// kept; under mpirun the other ranks throw RankFailed, which quotes it.
/// @throws ConfigError when world_size < 1 or mpirun started fewer processes.
void run_ranks(int world_size, const std::function<void(Communicator& world)>& fn,
               const RankOptions& options = {});

/// @brief How many processes mpirun started; nothing when this process was not started by it.
[[nodiscard]] std::optional<int> launched_world_size();

/// @brief This process's rank under mpirun; 0 otherwise. Rank 0 prints and writes files.
[[nodiscard]] int launched_rank();

/// @brief Checks, before anything else, that ranks can be what the launcher wants them to be.
/// @throws ConfigError when it started several processes of a build that has no MPI.
void expect_usable_launch();

/// @brief Whether this process is the one to say why the program ends with an error.
///
/// Rank 0 is, for every failure reaches it. When it has died, or was never told (a wrong flag on
/// another rank, an end before MPI has started), it is the first process of a host that asks. A process
/// other than rank 0 waits here for a moment: mpirun ends all when one has ended with an error.
[[nodiscard]] bool reports_for_all();

}  // namespace ultra
