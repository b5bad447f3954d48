#include "common/comm/backend/launch.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::comm {
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

void expect_told_ranks() {
  const int tasks = number("SLURM_STEP_NUM_TASKS").value_or(1);
  if (tasks <= 1 || find_launch()) return;
  throw ConfigError(fmt::format(
      "srun started {} tasks and told none its rank: each would train alone. Start them with "
      "srun --mpi=pmix ('srun --mpi=list' names what this Slurm can do), or with mpirun in the "
      "job.",
      tasks));
}

void expect_no_launcher() {
  expect_told_ranks();
  const Launch launch = find_launch().value_or(Launch{});
  if (launch.size == 1) return;
  throw ConfigError(fmt::format(
      "a launcher started {} processes, but this program was built without MPI: each would train "
      "alone. Install Open MPI and build again, or start it alone with --ranks {}.",
      launch.size, launch.size));
}

}  // namespace ultra::comm
