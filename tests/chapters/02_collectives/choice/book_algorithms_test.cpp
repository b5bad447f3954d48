#include "chapters/02_collectives/choice/book_algorithms.hpp"

#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using collectives::BookAlgorithms;
using collectives::BookOptions;
using collectives::CollectiveRequest;
using collectives::Tuning;
using comm::Group;

std::string_view chosen(const BookOptions& options, OpKind op, int size, std::size_t count) {
  const BookAlgorithms book(options);
  const CollectiveRequest request =
      CollectiveRequest::of(op, Group::all(0, size), count, options.tuning);
  return book.choose(op, request).name;
}

TEST(AlgorithmTable, AnswersUnknownNamesWithAllThatThereAre) {
  EXPECT_EQ(message_of<ConfigError>(
                [] { return collectives::find_algorithm(OpKind::kAllGather, "tree"); }),
            "no algorithm for all_gather is called 'tree'. Choose ring, recursive-doubling.");
  EXPECT_EQ(
      message_of<ConfigError>([] { return collectives::parse_collective("allreduce"); }),
      "no collective is called 'allreduce'. Choose broadcast, reduce, all_reduce, gather, scatter, "
      "all_gather, reduce_scatter, all_to_all, barrier.");
}

TEST(AlgorithmTable, MakesGridsAsEqualAsPossible) {
  using Grid = std::vector<int>;
  EXPECT_EQ(collectives::balanced_grid(12, 2), (Grid{3, 4}));
  EXPECT_EQ(collectives::balanced_grid(7, 2), (Grid{1, 7}));
  EXPECT_EQ(collectives::balanced_grid(64, 3), (Grid{4, 4, 4}));
  EXPECT_EQ(collectives::balanced_grid(24, 3), (Grid{2, 3, 4}));
  EXPECT_EQ(collectives::balanced_grid(1, 3), (Grid{1, 1, 1}));
}

TEST(AlgorithmTable, RejectsAnAllToAllThatIsNotEqual) {
  EXPECT_THROW(static_cast<void>(CollectiveRequest::of(OpKind::kAllToAll, Group::all(0, 3), 10)),
               ConfigError);
}

TEST(BookAlgorithms, TakesFewRoundsForSmallAndLittleVolumeForLargeMessages) {
  const std::size_t large = 1 << 20;
  EXPECT_EQ(chosen({}, OpKind::kAllReduce, 5, 100), "recursive-doubling");
  EXPECT_EQ(chosen({}, OpKind::kAllReduce, 5, large), "ring");
  EXPECT_EQ(chosen({}, OpKind::kBroadcast, 5, 100), "binomial");
  EXPECT_EQ(chosen({}, OpKind::kBroadcast, 5, large), "scatter-all-gather");
  EXPECT_EQ(chosen({}, OpKind::kReduce, 5, large), "reduce-scatter-gather");
  EXPECT_EQ(chosen({}, OpKind::kAllGather, 8, 100), "recursive-doubling");
  EXPECT_EQ(chosen({}, OpKind::kAllGather, 6, 100), "ring");
  EXPECT_EQ(chosen({}, OpKind::kReduceScatter, 8, 100), "recursive-halving");
  EXPECT_EQ(chosen({}, OpKind::kReduceScatter, 8, large), "ring");
  EXPECT_EQ(chosen({}, OpKind::kAllToAll, 8, 8), "pairwise");
  EXPECT_EQ(chosen({}, OpKind::kBarrier, 8, 0), "dissemination");
}

TEST(BookAlgorithms, TakesTheNodesIntoAccountWhereTheyAreFull) {
  const BookOptions nodes{.tuning = {.ranks_per_node = 4}};
  const std::size_t large = 1 << 20;
  EXPECT_EQ(chosen(nodes, OpKind::kAllReduce, 8, large), "two-level");
  EXPECT_EQ(chosen(nodes, OpKind::kAllReduce, 8, 10), "recursive-doubling");
  EXPECT_EQ(chosen(nodes, OpKind::kAllReduce, 6, large), "ring");
  EXPECT_EQ(chosen(nodes, OpKind::kAllReduce, 4, large), "ring");
}

TEST(BookAlgorithms, SizesItsSegmentsByTheMessage) {
  const BookAlgorithms book(
      {.names = {{OpKind::kAllReduce, "double-tree"}}, .tuning = {.segment_bytes = 1024}});
  const auto steps = [&](std::size_t count) {
    return book.all_reduce(Group::all(0, 2), count, 8).lanes.front().size();
  };
  EXPECT_EQ(steps(10), 2U);    // a tree of two: each segment goes up once and down once
  EXPECT_EQ(steps(1024), 8U);  // 4096 bytes per half
  EXPECT_EQ(steps(1 << 20), 128U);
}

TEST(BookAlgorithms, TakesTheNamedAlgorithmOrSaysWhyItCannot) {
  const BookOptions options{.names = {{OpKind::kAllReduce, "halving-doubling"}}};
  EXPECT_EQ(chosen(options, OpKind::kAllReduce, 8, 1), "halving-doubling");
  EXPECT_EQ(message_of<ConfigError>([&] { return chosen(options, OpKind::kAllReduce, 6, 1); }),
            "all_reduce by 'halving-doubling' cannot work here: it needs a power of two of ranks, "
            "found 6. 'ring' takes any group.");
  EXPECT_EQ(
      message_of<ConfigError>([] {
        return chosen({.names = {{OpKind::kAllReduce, "torus-2d"}}, .tuning = {.grid = {2, 3}}},
                      OpKind::kAllReduce, 8, 1);
      }),
      "all_reduce by 'torus-2d' cannot work here: it needs a grid of 2 dimensions and 8 places, "
      "found 2 x 3. 'ring' takes any group.");
}

TEST(BookAlgorithms, RejectsWhatItDoesNotHaveBeforeAnyMessage) {
  EXPECT_THROW(BookAlgorithms({.names = {{OpKind::kAllReduce, "magic"}}}), ConfigError);
  EXPECT_THROW(BookAlgorithms({.tuning = {.ranks_per_node = 0}}), ConfigError);
  EXPECT_THROW(BookAlgorithms({.tuning = {.segments = -1}}), ConfigError);
}

}  // namespace
}  // namespace ultra
