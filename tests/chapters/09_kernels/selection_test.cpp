// Rungs and sizes from words.

#include "chapters/09_kernels/selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chapters/09_kernels/ladders.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"

namespace ultra::ladders {
namespace selection_test {

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

}  // namespace selection_test
}  // namespace ultra::ladders
