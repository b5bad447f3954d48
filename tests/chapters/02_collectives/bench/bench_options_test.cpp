#include "chapters/02_collectives/bench/bench_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::collectives {
namespace {

using test::parsed;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::vector<std::string>& arguments) {
  return test::message_of<ConfigError>([&] {
    const BenchOptions options = parsed<BenchOptions>(arguments);
    options.validate();
    static_cast<void>(options.request(DType::kF32));
  });
}

TEST(BenchOptions, NoFlagsMeasureNothing) {
  const BenchOptions options = parsed<BenchOptions>({});
  EXPECT_NO_THROW(options.validate());
  EXPECT_FALSE(options.measures());
}

TEST(BenchOptions, ACollectiveIsEnough) {
  const BenchOptions options = parsed<BenchOptions>({"--op", "all_gather"});
  options.validate();
  ASSERT_TRUE(options.measures());
  const BenchRequest request = options.request(DType::kF64);
  EXPECT_EQ(request.op, OpKind::kAllGather);
  EXPECT_EQ(request.dtype, DType::kF64);
  EXPECT_EQ(request.algorithms.size(), algorithms(OpKind::kAllGather).size() + 1);
  EXPECT_THAT(request.algorithms, Contains("native"));
  EXPECT_EQ(request.check, CheckResults::kOn);
}

TEST(BenchOptions, SizesGrowByTheFactorAndEndAtTheLast) {
  const BenchRequest request = parsed<BenchOptions>({"--op", "broadcast", "--min-bytes", "1KiB",
                                                     "--max-bytes", "10KiB", "--step-factor", "3"})
                                   .request(DType::kF32);
  EXPECT_THAT(request.sizes, ElementsAre(1024, 3072, 9216, 10240));
}

TEST(BenchOptions, ReachTheRequest) {
  const BenchRequest request =
      parsed<BenchOptions>({"--op", "all_reduce", "--algorithm", "ring,native", "--iterations", "7",
                            "--check", "off", "--ranks-per-node", "2", "--min-bytes", "64",
                            "--max-bytes", "64"})
          .request(DType::kF32);
  EXPECT_THAT(request.algorithms, ElementsAre("ring", "native"));
  EXPECT_THAT(request.sizes, ElementsAre(64));
  EXPECT_EQ(request.iterations, 7U);
  EXPECT_EQ(request.check, CheckResults::kOff);
  EXPECT_EQ(request.tuning.ranks_per_node, 2);
}

TEST(BenchOptions, FlagsWithoutACollectiveAreErrors) {
  for (const char* flag : {"--algorithm", "--min-bytes", "--max-bytes", "--step-factor",
                           "--iterations", "--ranks-per-node"}) {
    EXPECT_THAT(refusal({flag, "3"}), AllOf(HasSubstr(flag), HasSubstr("needs --op COLLECTIVE")));
  }
  EXPECT_THAT(refusal({"--check", "off"}), HasSubstr("--check needs --op"));
  EXPECT_THAT(refusal({"--op-json"}), HasSubstr("--op-json needs --op"));
}

TEST(BenchOptions, WhatCannotBeMeasuredIsAnError) {
  EXPECT_THAT(refusal({"--op", "all_sum"}), AllOf(HasSubstr("all_sum"), HasSubstr("all_reduce")));
  EXPECT_THAT(refusal({"--op", "all_reduce", "--algorithm", "rings"}),
              AllOf(HasSubstr("rings"), HasSubstr("recursive-doubling")));
  EXPECT_THAT(refusal({"--op", "all_reduce", "--min-bytes", "2MB", "--max-bytes", "1MB"}),
              HasSubstr("--min-bytes 2MB and --max-bytes 1MB"));
  EXPECT_THAT(refusal({"--op", "all_reduce", "--min-bytes", "0"}), HasSubstr("above 0"));
  EXPECT_THAT(refusal({"--op", "all_reduce", "--min-bytes", "many"}), HasSubstr("many"));
  EXPECT_THAT(refusal({"--op", "all_reduce", "--step-factor", "1"}), HasSubstr("at least 2"));
  EXPECT_THAT(refusal({"--op", "all_reduce", "--iterations", "0"}), HasSubstr("between 1 and"));
  EXPECT_THAT(refusal({"--op", "all_reduce", "--ranks-per-node", "0"}), HasSubstr("at least 1"));
  EXPECT_THROW(parsed<BenchOptions>({"--op", "all_reduce", "--check", "maybe"}),
               CLI::ValidationError);
}

}  // namespace
}  // namespace ultra::collectives
