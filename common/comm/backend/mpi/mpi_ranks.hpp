#pragma once
/// @file
/// Ranks as processes that mpirun started. The only door to MPI: nothing else names it.

#include <chrono>
#include <optional>

#include "common/comm/backend/rank_body.hpp"

/// @brief Ranks as processes of MPI.
namespace ultra::comm::mpi {

/// @brief How many processes mpirun started; nothing without mpirun or without MPI in this build.
[[nodiscard]] std::optional<int> launched_world_size();

/// @brief This process's rank among them.
[[nodiscard]] int launched_rank();

/// @brief See ultra::reports_for_all().
[[nodiscard]] bool reports_for_all();

/// @brief Checks that this build can do what a launcher wants of it.
/// @throws ConfigError when it started several processes, and this build has no MPI or they were not told
/// their ranks.
void expect_usable();

/// @brief Calls `body` on the first `world_size` processes and returns on all of them when all have
/// ended. Every process calls it.
///
/// Afterwards all are ready for another run, whether this one ended well or not; but not when a process
/// has died, or did not come within the time: then every later call throws CommError at once, and the
/// program ends without MPI_Finalize, which tells mpirun to end the others.
/// @param timeout  how long to wait for the others' beginning (MPI_Init included), and for their end
///                 when this rank's body has ended; at least 5 s, and 5 s for their end when the run
///                 has failed.
/// @throws what this rank's body threw; RankFailed when another rank failed, died or left.
void run_ranks(int world_size, const RankBody& body, std::chrono::duration<double> timeout);

}  // namespace ultra::comm::mpi
