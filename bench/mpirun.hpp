#pragma once
/// @file
/// What benchmarks that start themselves under mpirun share.

#include <unistd.h>

#include <cstdlib>

namespace ultra::bench {

/// @brief Lets Open MPI's mpirun start for root, as in containers, which it refuses otherwise.
inline void let_root_use_mpirun() {
  if (geteuid() != 0) return;
  constexpr int kReplace = 1;
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", kReplace);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", kReplace);
}

}  // namespace ultra::bench
