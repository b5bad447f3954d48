#pragma once
/// @file
/// What a launcher (mpirun, srun) tells its processes by their environment, before MPI is started.

#include <optional>

namespace ultra::comm {

/// @brief A process's place among those that one launcher started.
struct Launch {
  int rank = 0;  ///< its number
  int size = 1;  ///< how many there are
};

/// @brief This process's place; nothing when no launcher started it.
[[nodiscard]] std::optional<Launch> find_launch();

/// @brief Checks that each of several tasks of a Slurm job step was told its rank, as srun --mpi=pmix does:
/// otherwise each would train alone.
/// @throws ConfigError when srun started several tasks that were not.
void expect_told_ranks();

/// @brief Checks that a program without MPI is alone: each of several processes would train the whole
/// model by itself, and all would write the same files.
/// @throws ConfigError when a launcher started several processes, or srun several tasks.
void expect_no_launcher();

}  // namespace ultra::comm
