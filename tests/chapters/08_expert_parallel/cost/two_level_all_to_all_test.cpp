// All-to-all on two levels, carried out by the interpreter of chapter 02.
//
// Covers: chapters/08_expert_parallel/cost/two_level_all_to_all.hpp

#include "chapters/08_expert_parallel/cost/two_level_all_to_all.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/contracts/schedule_interpreter.hpp"

namespace ultra::expert_parallel {
namespace {

TEST(TwoLevelAllToAll, EveryChunkArrivesAndFewMessagesCrossNodes) {
  for (const auto& [nodes, g] :
       std::vector<std::pair<int, int>>{{1, 1}, {1, 4}, {3, 1}, {2, 3}, {4, 2}, {3, 4}}) {
    const int ranks = nodes * g;
    constexpr std::size_t kChunk = 2;
    std::vector<comm::Schedule> schedules;
    std::vector<ultra::test::RankBuffers<double>> buffers;
    for (int rank = 0; rank < ranks; ++rank) {
      schedules.push_back(two_level_all_to_all(comm::Group::all(rank, ranks), kChunk, g));
      ultra::test::RankBuffers<double> own;
      for (int to = 0; to < ranks; ++to) {
        for (std::size_t i = 0; i < kChunk; ++i) {
          own.input.push_back(1000.0 * rank + 10.0 * to + static_cast<double>(i));
        }
      }
      own.data.assign(own.input.size(), -1.0);
      buffers.push_back(own);
    }
    const auto result = ultra::test::interpret<double>(schedules, buffers);
    ASSERT_EQ(result.message, "") << nodes << " x " << g;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      for (int from = 0; from < ranks; ++from) {
        for (std::size_t i = 0; i < kChunk; ++i) {
          EXPECT_EQ(result.data[at][static_cast<std::size_t>(from) * kChunk + i],
                    1000.0 * from + 10.0 * rank + static_cast<double>(i));
        }
      }
      const std::size_t sent = static_cast<std::size_t>((g - 1) * nodes + (nodes - 1) * g) * kChunk;
      EXPECT_EQ(result.sent[at], sent);
    }
    EXPECT_LE(result.rounds, (g - 1) + (nodes - 1));
  }
}

TEST(TwoLevelAllToAll, NeedsWholeNodes) {
  const std::string message = ultra::test::message_of<ConfigError>(
      [] { static_cast<void>(two_level_all_to_all(comm::Group::all(0, 6), 1, 4)); });
  EXPECT_NE(message.find("6 ranks are no whole nodes of 4"), std::string::npos) << message;
}

}  // namespace
}  // namespace ultra::expert_parallel
