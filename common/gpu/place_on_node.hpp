#pragma once
/// @file
/// Which of the ranks on its machine a rank is.

namespace ultra::gpu {

/// @brief A process's number among those that mpirun or srun has started on this machine, as it says in
/// the environment (Open MPI, MPICH and its kin, Slurm); without either, `rank`.
///
/// Rank modulo the number of GPUs would put two ranks on one GPU where mpirun deals ranks out to machines
/// in turn.
[[nodiscard]] int place_on_node(int rank);

}  // namespace ultra::gpu
