#include "common/gpu/place_on_node.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace ultra::gpu {
namespace {

/// A variable of the environment, as it was afterwards.
class Variable {
 public:
  explicit Variable(const char* name) : name_(name) {
    if (const char* const value = std::getenv(name)) before_ = value;
    unsetenv(name);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    unsetenv(name_);
    if (before_) setenv(name_, before_->c_str(), 1);
  }
  void set(const char* value) const { setenv(name_, value, 1); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(PlaceOnNode, IsWhatMpirunSaysElseTheRank) {
  const Variable open_mpi("OMPI_COMM_WORLD_LOCAL_RANK");
  const Variable mpich("MPI_LOCALRANKID");
  const Variable slurm("SLURM_LOCALID");
  EXPECT_EQ(place_on_node(5), 5);
  slurm.set("1");
  EXPECT_EQ(place_on_node(5), 1) << "srun without an MPI";
  mpich.set("3");
  EXPECT_EQ(place_on_node(5), 3);
  open_mpi.set("2");
  EXPECT_EQ(place_on_node(5), 2);
}

TEST(PlaceOnNode, IsTheRankWhereTheEnvironmentSaysNoNumber) {
  const Variable open_mpi("OMPI_COMM_WORLD_LOCAL_RANK");
  const Variable mpich("MPI_LOCALRANKID");
  const Variable slurm("SLURM_LOCALID");
  for (const char* const text : {"", "-1", "2x", "many"}) {
    open_mpi.set(text);
    EXPECT_EQ(place_on_node(4), 4) << text;
  }
}

}  // namespace
}  // namespace ultra::gpu
