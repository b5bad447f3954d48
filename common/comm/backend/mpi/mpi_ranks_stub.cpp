// In place of mpi_ranks.cpp in a build without MPI.

#include "common/base/errors.hpp"
#include "common/comm/backend/launch.hpp"
#include "common/comm/backend/mpi/mpi_ranks.hpp"

namespace ultra::comm::mpi {

std::optional<int> launched_world_size() { return std::nullopt; }

int launched_rank() { return 0; }

bool reports_for_all() { return find_launch().value_or(Launch{}).rank == 0; }

void expect_usable() { expect_no_launcher(); }

void run_ranks(int /*world_size*/, const RankBody& /*body*/,
               std::chrono::duration<double> /*timeout*/) {
  throw InternalError("this build has no MPI: ranks are threads");
}

}  // namespace ultra::comm::mpi
