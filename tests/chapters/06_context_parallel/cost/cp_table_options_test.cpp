#include "chapters/06_context_parallel/cost/cp_table_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/programs/command_line.hpp"

namespace ultra::context_parallel {
namespace {

using ::testing::HasSubstr;

CpTableOptions parse(const std::string& line) {
  return ultra::test::options_of<CpTableOptions>(line);
}

TEST(CpTableOptions, AskNothingByDefault) {
  EXPECT_FALSE(parse("").predicts());
  EXPECT_NO_THROW(parse("").validate());
  EXPECT_TRUE(parse("--cp-table 2,4").predicts());
}

TEST(CpTableOptions, AskForEveryLengthAndNumberOfRanks) {
  const auto questions =
      parse("--cp-table 2,16 --cp-table-seq 4096,8192 --cp-table-tp 4").questions({});
  ASSERT_EQ(questions.size(), 4U);
  EXPECT_EQ(questions[0].cp, 2);
  EXPECT_EQ(questions[1].cp, 16);
  EXPECT_EQ(questions[2].seq_len, 8192U);
  EXPECT_EQ(questions[0].heads, 8U) << "32 heads of Llama 3 8B";
  EXPECT_EQ(questions[0].kv_heads, 2U);
}

TEST(CpTableOptions, AnswerWithATableOrJson) {
  const std::string table = parse("--cp-table 4 --cp-table-seq 8192").answer({});
  EXPECT_THAT(table, HasSubstr("ulysses+ring 2x2"));
  EXPECT_THAT(table, HasSubstr("fastest"));
  const auto json =
      nlohmann::json::parse(parse("--cp-table 4 --cp-table-seq 8192 --cp-table-json").answer({}));
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0].at("cp"), 4);
  EXPECT_EQ(json[0].at("methods").size(), 4U);
}

TEST(CpTableOptions, RefusalsSayWhatDoesNotFit) {
  ultra::test::expect_refused<CpTableOptions>(
      {{"--cp-table-seq 4096", {"--cp-table-seq needs --cp-table RANKS"}},
       {"--cp-table 4,2", {"--cp-table"}},
       {"--cp-table 100000", {"--cp-table 100000: there are from 1 to 4096 ranks"}},
       {"--cp-table 4 --cp-table-seq 99999999999999",
        {"--cp-table-seq 99999999999999", "more than the simulator's messages hold"}},
       {"--cp-table 4 --cp-table-seq 3", {"3 tokens leaves some of 4 ranks without any"}},
       {"--cp-table x", {"'x' is not a whole number"}},
       {"--cp-table 4 --cp-table-tp 3", {"--cp-table-tp is 3", "8 key/value heads"}},
       {"--cp-table 4 --cp-table-mfu 2", {"--cp-table-mfu"}},
       {"--cp-table 4 --cp-table-preset none", {"--cp-table-preset"}}},
      [](const CpTableOptions& options) {
        options.validate();
        static_cast<void>(options.answer({}));
      });
}

}  // namespace
}  // namespace ultra::context_parallel
