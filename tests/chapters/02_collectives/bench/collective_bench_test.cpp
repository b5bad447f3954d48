#include "chapters/02_collectives/bench/collective_bench.hpp"

#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::collectives {
namespace {

using testing::Contains;

BenchOptions valid(const std::string& line) { return test::valid<BenchOptions>(line); }

void expect_refused(const std::vector<test::Refusal>& rows) {
  test::expect_refused<BenchOptions>(rows, [](const BenchOptions& options) {
    options.validate();
    static_cast<void>(options.request(DType::kF32));
  });
}

TEST(BenchOptions, SizesGrowByTheFactorAndEndAtTheLast) {
  const BenchRequest request =
      valid("--op broadcast --min-bytes 1KiB --max-bytes 10KiB --step-factor 3")
          .request(DType::kF32);
  EXPECT_THAT(request.sizes, ElementsAre(1024, 3072, 9216, 10240));
}

TEST(BenchOptions, ReachTheRequest) {
  const BenchRequest request =
      valid(
          "--op all_reduce --algorithm ring,native --iterations 7 --check off "
          "--ranks-per-node 2 --min-bytes 64 --max-bytes 64")
          .request(DType::kF32);
  EXPECT_THAT(request.algorithms, ElementsAre("ring", "native"));
  EXPECT_THAT(request.sizes, ElementsAre(64));
  EXPECT_EQ(request.iterations, 7U);
  EXPECT_EQ(request.check, CheckResults::kOff);
  EXPECT_EQ(request.tuning.ranks_per_node, 2);
}

TEST(BenchOptions, FlagsWithoutACollectiveAreErrors) {
  for (const std::string flag : {"--algorithm", "--min-bytes", "--max-bytes", "--step-factor",
                                 "--iterations", "--ranks-per-node"}) {
    expect_refused({{flag + " 3", {flag, "needs --op COLLECTIVE"}}});
  }
  expect_refused(
      {{"--check off", {"--check needs --op"}}, {"--op-json", {"--op-json needs --op"}}});
}

TEST(BenchOptions, WhatCannotBeMeasuredIsAnError) {
  const std::string op = "--op all_reduce ";
  expect_refused({{"--op all_sum", {"--op: ", "'all_sum'", "all_reduce"}},
                  {op + "--algorithm rings", {"--algorithm: ", "'rings'", "recursive-doubling"}},
                  {op + "--min-bytes 2MB --max-bytes 1MB", {"--min-bytes 2MB and --max-bytes 1MB"}},
                  {op + "--min-bytes 0", {"above 0"}},
                  {op + "--min-bytes many", {"--min-bytes: 'many' is not a size"}},
                  {op + "--step-factor 1", {"--step-factor is 1", "at least 2"}},
                  {op + "--iterations 0", {"--iterations is 0", "from 1 to"}},
                  {op + "--ranks-per-node 0", {"--ranks-per-node is 0", "from 1 to"}},
                  {op + "--ranks-per-node 4294967297", {"--ranks-per-node is 4294967297"}},
                  {op + "--max-bytes 2TB", {"--max-bytes is 2TB", "at most 1.00 TB"}},
                  {op + "--check maybe", {"--check is 'maybe'", "on or off"}}});
}

}  // namespace
}  // namespace ultra::collectives
