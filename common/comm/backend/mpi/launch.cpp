#include "common/comm/backend/mpi/launch.hpp"

#include <cstdlib>

#include "common/base/text.hpp"

namespace ultra::comm::mpi {
namespace {

struct Names {
  const char* rank;
  const char* size;
};

// Open MPI's mpirun; srun with PMIx, which does not tell the size itself; srun with PMI, MPICH.
constexpr Names kLaunchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
                                {"PMI_RANK", "PMI_SIZE"}};

std::optional<int> number(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return parse_number<int>(value);
}

}  // namespace

std::optional<Launch> find_launch() {
  for (const Names& names : kLaunchers) {
    const std::optional<int> rank = number(names.rank);
    const std::optional<int> size = number(names.size);
    if (rank && size && *size >= 1 && *rank >= 0 && *rank < *size) {
      return Launch{.rank = *rank, .size = *size};
    }
  }
  return std::nullopt;
}

}  // namespace ultra::comm::mpi
