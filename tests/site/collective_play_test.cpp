// A play ends with what the operation promises, whatever the algorithm, the ranks and the elements.

#include "tools/site/figures/collective_play.hpp"

#include <gtest/gtest.h>

#include <string>

#include "common/base/errors.hpp"
#include "tests/support/random.hpp"

namespace ultra::site {
namespace {

using collectives::NamedAlgorithm;

class Play : public test::RandomTest {
 protected:
  static std::uint32_t all_of(int ranks) {
    return ranks == 32 ? ~std::uint32_t{0} : (std::uint32_t{1} << static_cast<unsigned>(ranks)) - 1;
  }
  static std::uint32_t only(int rank) { return std::uint32_t{1} << static_cast<unsigned>(rank); }

  /// What element i of a rank holds in the end; none where the operation promises nothing.
  static std::optional<Cell> promised(OpKind op, int rank, std::size_t i, int ranks,
                                      const comm::Chunks& chunks) {
    int owner = 0;
    while (i >= chunks[owner].end) ++owner;
    const std::size_t block = chunks[rank].size();
    switch (op) {
      case OpKind::kAllReduce:
        return Cell{i, all_of(ranks)};
      case OpKind::kReduce:
        return rank == 0 ? std::optional(Cell{i, all_of(ranks)}) : std::nullopt;
      case OpKind::kReduceScatter:
        return rank == owner ? std::optional(Cell{i, all_of(ranks)}) : std::nullopt;
      case OpKind::kBroadcast:
        return Cell{i, only(0)};
      case OpKind::kScatter:
        return rank == owner ? std::optional(Cell{i, only(0)}) : std::nullopt;
      case OpKind::kGather:
        return rank == 0 ? std::optional(Cell{i, only(owner)}) : std::nullopt;
      case OpKind::kAllGather:
        return Cell{i, only(owner)};
      case OpKind::kAllToAll:
        return Cell{static_cast<std::size_t>(rank) * block + i % block, only(owner)};
      default:
        return std::nullopt;
    }
  }

  static void expect_promise(OpKind op, const NamedAlgorithm& algorithm, int ranks,
                             std::size_t elements) {
    const CollectivePlay played = play(op, algorithm, ranks, elements, {});
    const auto chunks = comm::Chunks::even({0, elements}, ranks);
    const std::vector<Cells>& end =
        played.rounds.empty() ? played.at_first : played.rounds.back().data;
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < elements; ++i) {
        const std::optional<Cell> expected = promised(op, rank, i, ranks, chunks);
        if (!expected) continue;
        EXPECT_EQ(end[static_cast<std::size_t>(rank)][i], expected)
            << to_string(op) << ' ' << algorithm.name << ", " << ranks << " ranks, " << elements
            << " elements: element " << i << " of rank " << rank;
      }
    }
  }
};

TEST_F(Play, EndsWithWhatTheOperationPromises) {
  for (const OpKind op : collectives::collective_ops()) {
    if (op == OpKind::kBarrier) continue;
    for (const NamedAlgorithm& algorithm : collectives::algorithms(op)) {
      for (int ranks = 2; ranks <= 9; ++ranks) {
        const auto p = static_cast<std::size_t>(ranks);
        const std::size_t elements =
            op == OpKind::kAllToAll ? p * random.between(1, 3) : random.between(1, 3 * p);
        const auto request =
            collectives::CollectiveRequest::of(op, comm::Group::all(0, ranks), elements);
        if (!algorithm.why_not(request).empty()) continue;
        expect_promise(op, algorithm, ranks, elements);
      }
    }
  }
}

TEST_F(Play, ARingTakesTwoTimesPLessOneRoundsOfPMessages) {
  const NamedAlgorithm& ring = collectives::find_algorithm(OpKind::kAllReduce, "ring");
  const int ranks = static_cast<int>(random.between(2, 12));
  const CollectivePlay played = play(OpKind::kAllReduce, ring, ranks, 24, {});
  ASSERT_EQ(played.rounds.size(), 2 * (static_cast<std::size_t>(ranks) - 1));
  for (const PlayedRound& round : played.rounds) {
    EXPECT_EQ(round.messages.size(), static_cast<std::size_t>(ranks));
  }
}

TEST_F(Play, RefusesWhatCannotBePlayed) {
  const NamedAlgorithm& ring = collectives::find_algorithm(OpKind::kAllReduce, "ring");
  EXPECT_THROW(static_cast<void>(play(OpKind::kAllReduce, ring, 0, 4, {})), ConfigError);
  EXPECT_THROW(static_cast<void>(play(OpKind::kAllReduce, ring, 33, 4, {})), ConfigError);
  const NamedAlgorithm& halving =
      collectives::find_algorithm(OpKind::kAllReduce, "halving-doubling");
  EXPECT_THROW(static_cast<void>(play(OpKind::kAllReduce, halving, 6, 6, {})), ConfigError);
}

}  // namespace
}  // namespace ultra::site
