#include "common/comm/backend/launch.hpp"

#include <cstdlib>

#include "tests/support/toolbox.hpp"

namespace ultra::comm {
namespace {

/// Sets the variables of one launcher and takes them back.
class Launched : public ::testing::Test {
 protected:
  void set(const char* name, const char* value) {
    const char* const old = std::getenv(name);
    old_.emplace_back(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    setenv(name, value, 1);
  }

  void TearDown() override {
    for (; !old_.empty(); old_.pop_back()) {  // what was set last, first
      const auto& [name, value] = old_.back();
      if (value) {
        setenv(name.c_str(), value->c_str(), 1);
      } else {
        unsetenv(name.c_str());
      }
    }
  }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> old_;
};

TEST_F(Launched, MpirunTellsRankAndSize) {
  set("OMPI_COMM_WORLD_RANK", "3");
  set("OMPI_COMM_WORLD_SIZE", "8");
  const auto launch = find_launch();
  ASSERT_TRUE(launch.has_value());
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 8);
}

TEST_F(Launched, SrunTellsTheSizeApart) {
  set("PMIX_RANK", "1");
  EXPECT_FALSE(find_launch().has_value());
  set("SLURM_STEP_NUM_TASKS", "2");
  const auto launch = find_launch();
  ASSERT_TRUE(launch.has_value());
  EXPECT_EQ(launch->rank, 1);
  EXPECT_EQ(launch->size, 2);
}

TEST_F(Launched, TasksOfSrunThatKnowNoRankAreRefused) {
  set("SLURM_STEP_NUM_TASKS", "4");
  EXPECT_THAT(message_of<ConfigError>([] { expect_told_ranks(); }),
              AllOf(HasSubstr("srun started 4 tasks"), HasSubstr("srun --mpi=pmix")));
  EXPECT_THROW(expect_no_launcher(), ConfigError);
  set("SLURM_STEP_NUM_TASKS", "1");
  EXPECT_NO_THROW(expect_told_ranks());
  set("SLURM_STEP_NUM_TASKS", "4");
  set("PMIX_RANK", "0");
  EXPECT_NO_THROW(expect_told_ranks());
}

TEST_F(Launched, AProgramWithoutMpiMustBeAlone) {
  EXPECT_NO_THROW(expect_no_launcher());
  set("OMPI_COMM_WORLD_RANK", "0");
  set("OMPI_COMM_WORLD_SIZE", "1");
  EXPECT_NO_THROW(expect_no_launcher());
  set("OMPI_COMM_WORLD_SIZE", "8");
  EXPECT_THAT([] { expect_no_launcher(); }, ::testing::ThrowsMessage<ConfigError>(AllOf(
                                                HasSubstr("a launcher started 8 processes"),
                                                HasSubstr("without MPI"), HasSubstr("--ranks 8"))));
}

TEST_F(Launched, NonsenseIsNoLaunch) {
  for (const char* rank : {"", "x", "4", "-1", "1x"}) {
    set("OMPI_COMM_WORLD_RANK", rank);
    set("OMPI_COMM_WORLD_SIZE", "4");
    EXPECT_FALSE(find_launch().has_value()) << "rank '" << rank << "'";
  }
}

}  // namespace
}  // namespace ultra::comm
