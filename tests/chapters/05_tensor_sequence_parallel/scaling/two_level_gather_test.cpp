#include "chapters/05_tensor_sequence_parallel/scaling/two_level_gather.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/contracts/schedule_interpreter.hpp"

namespace ultra::tensor_parallel {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Nodes of equally many ranks, and elements among them.
struct Case {
  int nodes = 1;
  int ranks_per_node = 1;
  std::size_t count = 0;

  [[nodiscard]] int ranks() const { return nodes * ranks_per_node; }
  [[nodiscard]] Range range() const { return {0, count}; }
  [[nodiscard]] Range part(int rank) const {
    return two_level_part(comm::Group::all(rank, ranks()), range(), ranks_per_node);
  }
};

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const int nodes : {1, 2, 3, 4}) {
    for (const int ranks_per_node : {1, 2, 3, 5}) {
      for (const std::size_t count : {0U, 1U, 7U, 60U, 97U}) {
        cases.push_back({.nodes = nodes, .ranks_per_node = ranks_per_node, .count = count});
      }
    }
  }
  return cases;
}

using MakeLane = comm::Lane (*)(const comm::Group&, Range, int);

test::Interpretation<double> run(const Case& c, MakeLane lane_of,
                                 const std::vector<test::RankBuffers<double>>& buffers) {
  std::vector<comm::Schedule> schedules;
  for (int rank = 0; rank < c.ranks(); ++rank) {
    schedules.push_back(
        {.lanes = {lane_of(comm::Group::all(rank, c.ranks()), c.range(), c.ranks_per_node)}});
  }
  return test::interpret<double>(schedules, buffers);
}

std::string name(const Case& c) {
  return std::to_string(c.nodes) + " x " + std::to_string(c.ranks_per_node) + ", " +
         std::to_string(c.count) + " elements";
}

TEST(TwoLevelPart, CoversEveryElementOnce) {
  for (const Case& c : cases()) {
    std::vector<int> owners(c.count, 0);
    for (int rank = 0; rank < c.ranks(); ++rank) {
      for (std::size_t i = c.part(rank).begin; i < c.part(rank).end; ++i) ++owners[i];
    }
    EXPECT_EQ(owners, std::vector<int>(c.count, 1)) << name(c);
  }
}

TEST(TwoLevelAllGather, GivesAllPartsToAll) {
  for (const Case& c : cases()) {
    std::vector<test::RankBuffers<double>> buffers;
    std::vector<double> all(c.count);
    for (int rank = 0; rank < c.ranks(); ++rank) {
      std::vector<double> data(c.count, -1.0);
      for (std::size_t i = c.part(rank).begin; i < c.part(rank).end; ++i) {
        data[i] = all[i] = 1000.0 * rank + static_cast<double>(i);
      }
      buffers.push_back({.data = data});
    }
    const auto result = run(c, two_level_all_gather, buffers);
    ASSERT_EQ(result.fault, test::Fault::kNone) << name(c) << ": " << result.message;
    for (const std::vector<double>& data : result.data) EXPECT_EQ(data, all) << name(c);
    EXPECT_EQ(result.rounds, c.nodes - 1 + c.ranks_per_node - 1) << name(c);
  }
}

TEST(TwoLevelReduceScatter, LeavesEachRankTheSumOfItsPart) {
  for (const Case& c : cases()) {
    std::vector<test::RankBuffers<double>> buffers;
    std::vector<double> sum(c.count, 0.0);
    for (int rank = 0; rank < c.ranks(); ++rank) {
      std::vector<double> data(c.count);
      for (std::size_t i = 0; i < c.count; ++i) {
        data[i] = static_cast<double>(100 * i) + rank * rank;
        sum[i] += data[i];
      }
      buffers.push_back({.data = data});
    }
    const auto result = run(c, two_level_reduce_scatter, buffers);
    ASSERT_EQ(result.fault, test::Fault::kNone) << name(c) << ": " << result.message;
    for (int rank = 0; rank < c.ranks(); ++rank) {
      const std::vector<double>& data = result.data[static_cast<std::size_t>(rank)];
      for (std::size_t i = c.part(rank).begin; i < c.part(rank).end; ++i) {
        EXPECT_EQ(data[i], sum[i]) << name(c) << ", rank " << rank << ", element " << i;
      }
    }
    EXPECT_EQ(result.rounds, c.nodes - 1 + c.ranks_per_node - 1) << name(c);
  }
}

/// The header's volume: n (N-1)/P between nodes and n (L-1)/L inside.
TEST(TwoLevelAllGather, SendsWhatItSays) {
  const Case c{.nodes = 3, .ranks_per_node = 4, .count = 120};
  const comm::Group group = comm::Group::all(5, 12);
  for (const MakeLane lane_of : {two_level_all_gather, two_level_reduce_scatter}) {
    const comm::Schedule schedule{.lanes = {lane_of(group, c.range(), 4)}};
    EXPECT_EQ(comm::sent_count(schedule, 5), 120U * 2 / 12 + 120U * 3 / 4);
  }
}

TEST(TwoLevelGatherRefuses, NodesThatAreNotFull) {
  const comm::Group group = comm::Group::all(0, 6);
  for (const int ranks_per_node : {0, 4}) {
    const auto refusal = [&](auto&& fn) {
      return test::message_of<ConfigError>([&] {
        static_cast<void>(fn(group, Range{0, 6}, ranks_per_node));
      });
    };
    const auto names_it =
        AllOf(HasSubstr("6 ranks are not a multiple of"), HasSubstr("Use a ring"));
    EXPECT_THAT(refusal(two_level_all_gather), names_it);
    EXPECT_THAT(refusal(two_level_reduce_scatter), names_it);
    EXPECT_THAT(refusal(two_level_part), names_it);
  }
}

}  // namespace
}  // namespace ultra::tensor_parallel
