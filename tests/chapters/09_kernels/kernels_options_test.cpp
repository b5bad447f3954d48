// The flags of chapter 09.

#include "chapters/09_kernels/kernels_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "build_config.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/programs/odd_values.hpp"
#include "tests/support/programs/parse_options.hpp"

namespace ultra::ladders {
namespace kernels_options_test {

using test::parsed;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class KernelsOptionsTest : public ::testing::Test {
 protected:
  KernelsRequest request(const std::vector<std::string>& arguments, bool has_gpu = false) {
    return parsed<KernelsOptions>(arguments).request(ladders_, has_gpu);
  }
  std::string refusal(const std::vector<std::string>& arguments, bool has_gpu = false) {
    return test::message_of<ConfigError>([&] { static_cast<void>(request(arguments, has_gpu)); });
  }

  std::vector<std::unique_ptr<Ladder>> ladders_ = all_ladders();
};

TEST_F(KernelsOptionsTest, NoFlagsAreTheFirstLadderInTheEmulator) {
  const KernelsRequest found = request({});
  EXPECT_EQ(found.selection.ladder->info().name, "matmul_fp32");
  EXPECT_EQ(found.run.executor, simt::Executor::kChecked);
  EXPECT_EQ(found.run.sizes, found.selection.ladder->default_sizes(simt::Executor::kChecked));
  EXPECT_EQ(found.run.repetitions, 0) << "nothing is timed in the emulator";
}

TEST_F(KernelsOptionsTest, ReachTheRequest) {
  const KernelsRequest found = request(
      {"--kernel", "matmul_fp32/coalesced", "--size", "32x16x8", "--seed", "7", "--emulate"}, true);
  EXPECT_THAT(found.selection.rungs, ElementsAre(2));
  EXPECT_THAT(found.run.sizes, ElementsAre(32, 16, 8));
  EXPECT_EQ(found.run.seed, 7U);
  EXPECT_EQ(found.run.executor, simt::Executor::kChecked);
}

TEST_F(KernelsOptionsTest, AGpuIsTheDefaultWhereThereIsOne) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, std::vector<std::string>{"--gpu"}}) {
    const KernelsRequest found = request(flags, true);
    EXPECT_EQ(found.run.executor, simt::Executor::kGpu);
    EXPECT_EQ(found.run.repetitions, 20);
    EXPECT_EQ(found.run.sizes, found.selection.ladder->default_sizes(simt::Executor::kGpu));
  }
  EXPECT_EQ(request({"--counters"}, true).run.executor, simt::Executor::kChecked);
  EXPECT_EQ(request({"--gpu", "--repetitions", "0"}, true).run.repetitions, 0);
}

TEST_F(KernelsOptionsTest, SidesThatContradictEachOther) {
  EXPECT_THAT(refusal({"--emulate", "--gpu"}, true), HasSubstr("--emulate and --gpu"));
}

TEST_F(KernelsOptionsTest, AGpuThatIsNotThere) {
  EXPECT_THAT(refusal({"--gpu"}), AllOf(HasSubstr(build::kHasCuda ? "has no GPU" : "has no CUDA"),
                                        HasSubstr("Hint: "), HasSubstr("leave --gpu out")));
}

TEST_F(KernelsOptionsTest, CountersOnAGpuAreNsightComputes) {
  const std::string message =
      refusal({"--counters", "--gpu", "--kernel", "matmul_fp32/01", "--size", "64"}, true);
  EXPECT_THAT(message, AllOf(HasSubstr("ncu --metrics l1tex__t_requests"),
                             HasSubstr("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"),
                             HasSubstr("09_kernels --gpu"), HasSubstr("--kernel matmul_fp32/01"),
                             HasSubstr("--size 64"), HasSubstr("--repetitions 0")));
}

// On a GPU, where nothing is emulated, and in the emulator.
TEST_F(KernelsOptionsTest, AnyValueIsTakenOrRefusedByName) {
  for (const std::string flag : {"--kernel", "--size", "--seed", "--repetitions", "--metrics"}) {
    for (const std::string& value : test::odd_values()) {
      for (const bool has_gpu : {false, true}) {
        SCOPED_TRACE(flag + " " + value.substr(0, 30));
        try {
          static_cast<void>(request({flag, value}, has_gpu));
        } catch (const ConfigError& error) {
          test::expect_good_refusal(error.what(), flag);
        }
      }
    }
  }
}

TEST_F(KernelsOptionsTest, ValuesThatCannotWork) {
  EXPECT_THAT(refusal({"--kernel", "gemm"}), HasSubstr("no ladder 'gemm'"));
  EXPECT_THAT(refusal({"--size", "64x64"}), HasSubstr("2 sizes"));
  EXPECT_THAT(refusal({"--size", "100000"}), HasSubstr("hours"));
  EXPECT_NO_THROW(request({"--size", "8192"}, true)) << "a GPU takes what the emulator cannot";
  EXPECT_THAT(refusal({"--repetitions", "1000000"}),
              HasSubstr("--repetitions is 1000000. It must be a whole number from 0 to 100000"));
  EXPECT_THROW(request({"--seed", "-1"}), ConfigError);
}

}  // namespace kernels_options_test
}  // namespace ultra::ladders
