// Rungs and sizes from words.

#include "chapters/09_kernels/selection.hpp"

#include <set>

#include "build_config.hpp"
#include "chapters/09_kernels/kernels_options.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "tests/support/programs/odd_values.hpp"
#include "tests/support/programs/parse_options.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ladders::selection_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class SelectionTest : public ::testing::Test {
 protected:
  std::vector<int> rungs_of(const char* text) { return select(text, ladders_).rungs; }
  std::string refusal(const char* text) {
    return test::message_of<ConfigError>([&] { static_cast<void>(select(text, ladders_)); });
  }

  std::vector<std::unique_ptr<Ladder>> ladders_ = all_ladders();
  LadderInfo two_ = {.name = "two",
                     .title = "a test",
                     .dimensions = {{.name = "rows", .emulated = 4, .gpu = 8},
                                    {.name = "columns", .emulated = 5, .gpu = 9}},
                     .limit = Limit::kMemory};
  std::string size_refusal(const char* text) {
    return test::message_of<ConfigError>([&] { static_cast<void>(parse_sizes(text, two_)); });
  }
};

TEST_F(SelectionTest, ALadderIsAllItsRungs) {
  const Selection selection = select("matmul_fp32", ladders_);
  EXPECT_EQ(selection.ladder->info().name, "matmul_fp32");
  ASSERT_EQ(selection.rungs.size(), selection.ladder->rungs().size());
  EXPECT_EQ(selection.rungs.front(), 1);
  EXPECT_EQ(selection.rungs.back(), static_cast<int>(selection.rungs.size()));
}

TEST_F(SelectionTest, ARungHasANumberAndAName) {
  for (const char* text : {"matmul_fp32/2", "matmul_fp32/02", "matmul_fp32/coalesced"}) {
    EXPECT_THAT(rungs_of(text), ElementsAre(2)) << text;
  }
}

TEST_F(SelectionTest, WhatThereIsNotNamesWhatThereIs) {
  EXPECT_THAT(refusal("matmul"), AllOf(HasSubstr("no ladder 'matmul'"), HasSubstr("matmul_fp32")));
  EXPECT_THAT(refusal(""), HasSubstr("no ladder ''"));
  EXPECT_THAT(refusal("matmul_fp32/99"),
              AllOf(HasSubstr("no rung 99"), HasSubstr("expected 1 to")));
  EXPECT_THAT(refusal("matmul_fp32/0"), HasSubstr("no rung 0"));
  EXPECT_THAT(refusal("matmul_fp32/fast"), AllOf(HasSubstr("no rung 'fast'"), HasSubstr("naive")));
  EXPECT_THAT(refusal("matmul_fp32/"), HasSubstr("no rung ''"));
}

TEST_F(SelectionTest, OneSizeIsForAllExtents) {
  EXPECT_THAT(parse_sizes("7", two_), ElementsAre(7, 7));
  EXPECT_THAT(parse_sizes("7x9", two_), ElementsAre(7, 9));
  EXPECT_EQ(to_text(two_, {7, 9}), "rows 7 x columns 9");
}

TEST_F(SelectionTest, SizesThatAreNone) {
  for (const char* text : {"0", "-3", "4x0", "many", "4x", "x", "", "1.5", "3000000000", "4 x 5"}) {
    EXPECT_THAT(size_refusal(text), AllOf(HasSubstr("--size"), HasSubstr("no whole number")))
        << text;
  }
  EXPECT_THAT(size_refusal("4x5x6"), AllOf(HasSubstr("3 sizes"), HasSubstr("rowsxcolumns")));
}

TEST_F(SelectionTest, WhatWouldTakeHoursIsRefused) {
  const Selection one = select("matmul_fp32/naive", ladders_);
  EXPECT_NO_THROW(expect_emulable(one, {512, 512, 512}));
  const std::string message = test::message_of<ConfigError>([&] {
    expect_emulable(one, {8192, 8192, 8192});
  });
  EXPECT_THAT(message, AllOf(HasSubstr("hours"), HasSubstr("rows 8192"), HasSubstr("--size"),
                             HasSubstr("--gpu")));
}

TEST_F(SelectionTest, EveryLadderCanBeEmulatedAtItsOwnSizes) {
  for (const auto& ladder : ladders_) {
    const Selection all = select(ladder->info().name, ladders_);
    EXPECT_NO_THROW(expect_emulable(all, ladder->default_sizes(simt::Executor::kChecked)));
  }
}

}  // namespace ultra::ladders::selection_test

// Inputs that are drawn once, and repeat.
namespace ultra::ladders::random_values_test {
TEST(NormalValues, RepeatFromTheLastDrawnOne) {
  const std::vector<float> once = normal_values(kDrawnNumbers, 7, "x");
  const std::vector<float> more = normal_values(2 * kDrawnNumbers + 3, 7, "x");
  EXPECT_TRUE(std::equal(once.begin(), once.end(), more.begin()));
  EXPECT_TRUE(std::equal(once.begin(), once.end(),
                         more.begin() + static_cast<std::ptrdiff_t>(kDrawnNumbers)));
  EXPECT_EQ(more.back(), once[2]);
  EXPECT_EQ(normal_values(5, 7, "x"), std::vector<float>(once.begin(), once.begin() + 5));
}

// The first numbers of rows that lie a round number of elements apart.
TEST(NormalValues, DifferFromRowToRow) {
  const std::vector<float> values = normal_values(std::size_t{8192} * 4096, 3, "x");
  std::set<float> firsts;
  for (std::size_t row = 0; row < 8192; ++row) {
    firsts.insert(values[row * 4096]);
  }
  EXPECT_GT(firsts.size(), 8192U * 99 / 100);
}

}  // namespace ultra::ladders::random_values_test

// The flags of chapter 09.
namespace ultra::ladders::kernels_options_test {
using test::parsed;

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

}  // namespace ultra::ladders::kernels_options_test
