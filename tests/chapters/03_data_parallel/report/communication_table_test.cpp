#include "chapters/03_data_parallel/data_parallel.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using ::testing::ContainsRegex;

train::RankSummary summary(int rank, double busy, double exposed) {
  train::RankSummary own;
  own.rank = rank;
  own.seconds.compute = 3;
  own.communication[OpKind::kAllReduce].sent_bytes = 2'000'000;
  own.communication.busy_seconds = busy;
  own.communication.exposed_seconds = exposed;
  return own;
}

TEST(CommunicationTable, SaysWhatWasHiddenOnEachRank) {
  train::TrainResult result;
  result.ranks = {summary(0, 2.0, 0.5), summary(1, 2.0, 2.0)};
  const std::string table = format_communication_table(result);
  EXPECT_THAT(table, ContainsRegex("0 +2[.]00 MB +3[.]00 +2[.]00 +0[.]50 +75%"));
  EXPECT_THAT(table, ContainsRegex("1 +2[.]00 MB +3[.]00 +2[.]00 +2[.]00 +0%"));
}

TEST(CommunicationTable, OneRankHidesNothingBecauseThereIsNothing) {
  train::TrainResult result;
  result.ranks = {summary(0, 0.0, 0.0)};
  EXPECT_THAT(format_communication_table(result), ContainsRegex("0[.]00 +-\n"));
  EXPECT_THAT(format_communication_table(result), Not(ContainsRegex("nan")));
}

}  // namespace
}  // namespace ultra::data_parallel
