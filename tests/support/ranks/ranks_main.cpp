// The main function of the tests of ranks (*_ranks_test.cpp).
//
// Without a launcher it is GoogleTest's own: ranks are threads. Under mpirun every process runs all
// cases, in the same order and with the same random draws, because run_ranks needs all of them: rank
// 0 reports as usual, the others only what failed, with their rank in front.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>

#include "common/comm/run_ranks.hpp"

namespace ultra::test {
namespace {

/// Reports the failures of a rank that is not 0, each in one piece.
class FailurePrinter : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}

 private:
  void OnTestStart(const testing::TestInfo& info) override {
    test_ = std::string(info.test_suite_name()) + "." + info.name();
  }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::ostringstream line;
    line << "[rank " << rank_ << "] " << test_ << ": ";
    if (result.file_name() != nullptr) {
      line << result.file_name() << ":" << result.line_number() << ": ";
    }
    line << "Failure\n" << result.message() << "\n";
    std::fputs(line.str().c_str(), stdout);
    std::fflush(stdout);
  }

  int rank_;
  std::string test_;
};

/// A number that all processes of this launch know and another launch hardly shares.
std::size_t seed_of_the_launch() {
  std::string all;
  for (const char* name :
       {"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri", "SLURM_JOB_ID", "SLURM_STEP_ID", "PMI_JOBID"}) {
    if (const char* value = std::getenv(name)) all += value;
  }
  return std::hash<std::string>()(all) % 1000000000;
}

void draw_alike_on_all_ranks() {
  constexpr int kKeepTheUsers = 0;
  setenv("ULTRA_TEST_SEED", std::to_string(seed_of_the_launch()).c_str(), kKeepTheUsers);
  if (GTEST_FLAG_GET(random_seed) == 0) {
    GTEST_FLAG_SET(random_seed, static_cast<int>(1 + seed_of_the_launch() % 99999));
  }
}

void report_by_rank() {
  const int rank = launched_rank();
  if (rank == 0) {
    std::printf("%d ranks as processes; ULTRA_TEST_SEED=%s\n", *launched_world_size(),
                std::getenv("ULTRA_TEST_SEED"));
    return;
  }
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new FailurePrinter(rank));  // GoogleTest owns it
}

}  // namespace
}  // namespace ultra::test

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  if (ultra::launched_world_size()) {
    ultra::test::draw_alike_on_all_ranks();
    ultra::test::report_by_rank();
  }
  return RUN_ALL_TESTS();
}
