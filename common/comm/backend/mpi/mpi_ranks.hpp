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

/// @brief Calls `body` on the first `world_size` processes and returns on all of them when all have
/// ended. Every process calls it.
/// @param timeout  how long to wait for the others' end when this rank's body has ended.
/// @throws what this rank's body threw; RankFailed when another rank failed.
void run_ranks(int world_size, const RankBody& body, std::chrono::duration<double> timeout);

}  // namespace ultra::comm::mpi
