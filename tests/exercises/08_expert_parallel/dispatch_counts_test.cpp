// Contract of exercise 08.3: how many rows travel between the ranks of the experts.
#include "chapters/08_expert_parallel/dispatch_counts.hpp"

#include <fmt/ranges.h>

#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::expert_parallel {
namespace {

constexpr const char* kSend =
    "Hint: rank r holds the experts of part r: the rows for all of them together go to it.";
constexpr const char* kReceive =
    "Hint: what arrives is [ranks, local experts]: the counts of rank 0 first.";
constexpr const char* kLocal =
    "Hint: a local expert gets rows from every rank: add them up over the ranks.";
constexpr const char* kTraffic =
    "Hint: one all-to-all of one i32 per expert is enough, and none on one rank.";

constexpr const char* kSegments =
    "Hint: segment [rank, expert] keeps its place in all three lists; where it begins is counted "
    "in two orders.";

class DispatchCountsTest : public ultra::test::RandomTest {
 protected:
  /// [ranks][experts] rows that each rank has for each expert; often none.
  std::vector<std::vector<std::size_t>> draw(std::size_t ranks, std::size_t experts) {
    std::vector<std::vector<std::size_t>> rows(ranks);
    for (auto& of_rank : rows) {
      for (std::size_t e = 0; e < experts; ++e) {
        of_rank.push_back(random.pick({0U, 1U, 1U, 1U}) * random.between(0, 50));
      }
    }
    return rows;
  }
};

TEST_F(DispatchCountsTest, EveryRankLearnsWhatItWillGet) {
  for (const int ranks : {1, 2, 3, 4}) {
    const auto size = static_cast<std::size_t>(ranks);
    for (const std::size_t local : {1U, 3U}) {
      const auto rows = draw(size, size * local);
      ultra::test::on_ranks(ranks, fmt::format("{} experts each", local), [&](Communicator& ep) {
        const auto rank = static_cast<std::size_t>(ep.rank());
        const CommStats before = ep.stats();
        const DispatchCounts counts = dispatch_counts(rows[rank], ep);
        const std::size_t sent =
            ep.stats()[OpKind::kAllToAll].sent_bytes - before[OpKind::kAllToAll].sent_bytes;
        EXPECT_EQ(sent, (size - 1) * local * 4) << kTraffic;
        for (std::size_t other = 0; other < size; ++other) {
          std::size_t send = 0;
          std::size_t receive = 0;
          for (std::size_t e = 0; e < local; ++e) {
            send += rows[rank][other * local + e];
            receive += rows[other][rank * local + e];
            EXPECT_EQ(counts.received.at(other * local + e), rows[other][rank * local + e])
                << kReceive;
          }
          EXPECT_EQ(counts.send_rows.at(other), send) << kSend;
          EXPECT_EQ(counts.receive_rows.at(other), receive) << kReceive;
        }
        EXPECT_EQ(counts_of(rows[rank], counts.received, size), counts) << kReceive;
        EXPECT_EQ(counts.local_experts(), local);
        const std::vector<std::size_t> per_expert = counts.rows_per_local_expert();
        for (std::size_t e = 0; e < local; ++e) {
          std::size_t all = 0;
          for (std::size_t other = 0; other < size; ++other) all += rows[other][rank * local + e];
          EXPECT_EQ(per_expert.at(e), all) << kLocal;
        }
      });
    }
  }
}

// Rows are told apart by whom they come from and whom they are for. Sorted by the expert, with ranks in
// their order, they are what the experts need.
TEST_F(DispatchCountsTest, SegmentsMoveEveryRowIntoTheOrderOfTheExperts) {
  for (int trial = 0; trial < 100 && !HasFailure(); ++trial) {
    const std::size_t ranks = random.between(1, 5);
    const std::size_t local = random.between(1, 4);
    const std::vector<std::size_t> received = draw(1, ranks * local).at(0);
    SCOPED_TRACE(fmt::format("{} ranks, {} experts here; received {}", ranks, local,
                             fmt::join(received, ", ")));
    std::vector<std::pair<std::size_t, std::size_t>> arrived;  // expert and rank of each row
    for (std::size_t i = 0; i < received.size(); ++i) {
      arrived.insert(arrived.end(), received[i], {i % local, i / local});
    }
    auto expected = arrived;
    std::ranges::stable_sort(expected);
    const RowSegments found =
        row_segments(counts_of(std::vector<std::size_t>(ranks * local, 0), received, ranks));
    ASSERT_EQ(found.rows, received) << kSegments;
    ASSERT_EQ(found.by_ranks.size(), received.size()) << kSegments;
    ASSERT_EQ(found.by_experts.size(), received.size()) << kSegments;
    auto moved = std::vector<std::pair<std::size_t, std::size_t>>(arrived.size(), {99, 99});
    for (std::size_t i = 0; i < received.size(); ++i) {
      const std::size_t last = std::max(found.by_ranks.at(i), found.by_experts.at(i)) + received[i];
      ASSERT_LE(last, arrived.size()) << kSegments << " Segment " << i << " ends after all rows.";
      for (std::size_t row = 0; row < received[i]; ++row) {
        moved.at(found.by_experts.at(i) + row) = arrived.at(found.by_ranks.at(i) + row);
      }
    }
    EXPECT_EQ(moved, expected) << kSegments
                               << " {expert, rank} of each row; 99: nothing came there";
  }
}

}  // namespace
}  // namespace ultra::expert_parallel
