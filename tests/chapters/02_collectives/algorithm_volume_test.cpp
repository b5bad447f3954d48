// What each algorithm sends, and in how many rounds: the Cost lines of the headers.

#include <bit>

#include "chapters/02_collectives/algorithms/all_reduces.hpp"
#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "chapters/02_collectives/steps.hpp"
#include "tests/support/contracts/collective_trial.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using collectives::CollectiveRequest;
using collectives::doubling_rounds;
using collectives::Tree;
using collectives::tree_place;
using collectives::TreePlace;
using collectives::Tuning;
using comm::Chunks;
using comm::Group;
using test::CollectiveTrial;

std::size_t real(int n) { return static_cast<std::size_t>(n); }

/// An all-reduce of `count` elements that has run.
CollectiveTrial all_reduced(std::string_view name, int size, std::size_t count,
                            const Tuning& tuning = {}) {
  const collectives::NamedAlgorithm& algorithm =
      collectives::find_algorithm(OpKind::kAllReduce, name);
  CollectiveTrial trial(test::whole_world(size), [&](const Group& group) {
    return algorithm.schedule(CollectiveRequest::of(OpKind::kAllReduce, group, count, tuning));
  });
  EXPECT_TRUE(trial.all_reduce(count)) << name;
  return trial;
}

class AllReduceVolume : public test::RandomTest {};

TEST_F(AllReduceVolume, IsLeastForRingsAndHalvingDoubling) {
  for (const int size : {1, 2, 4, 8, 16}) {
    const std::size_t count = 60 * real(size) * 4;
    for (const char* name :
         {"ring", "segmented-ring", "pairwise", "pairwise-tree", "halving-doubling", "rabenseifner",
          "two-level", "torus-2d", "torus-3d"}) {
      const CollectiveTrial trial = all_reduced(
          name, size, count, {.ranks_per_node = size > 2 ? size / 2 : 1, .segments = 4});
      for (int p = 0; p < size; ++p) {
        EXPECT_EQ(trial.sent(p), 2 * count * real(size - 1) / real(size))
            << name << " of " << size << ", position " << p;
      }
    }
  }
}

TEST_F(AllReduceVolume, OfThePairwiseExchangeIsTheRings) {
  for (const int size : test::kGroupSizes) {
    const std::size_t count = real(size) * random.between(1, 50);
    EXPECT_EQ(all_reduced("pairwise", size, count).rounds(), 2 * (size - 1));
    CollectiveTrial trial(test::whole_world(size), [&](const Group& group) {
      const auto request = CollectiveRequest::of(OpKind::kReduceScatter, group, count);
      return collectives::find_algorithm(OpKind::kReduceScatter, "pairwise").schedule(request);
    });
    EXPECT_TRUE(trial.reduce_scatter(Chunks::even({0, count}, size)));
    EXPECT_EQ(trial.rounds(), size - 1);
    // The same to everybody else.
    for (int p = 0; p < size; ++p) {
      for (int to = 0; to < size; ++to) {
        const std::size_t expected = p == to ? 0 : count / real(size);
        EXPECT_EQ(trial.sent_to(p, [&](int peer) { return peer == to; }), expected);
      }
    }
  }
}

TEST_F(AllReduceVolume, OfTheDoubleTreeIsHalfAMessagePerNeighbour) {
  for (const int size : test::kGroupSizes) {
    const std::size_t count = 2 * random.between(1, 200);
    const int segments = static_cast<int>(random.between(1, 8));
    const CollectiveTrial trial = all_reduced("double-tree", size, count, {.segments = segments});
    for (int p = 0; p < size; ++p) {
      std::size_t neighbours = 0;
      for (const Tree tree : {Tree::kFirst, Tree::kSecond}) {
        const TreePlace place = tree_place(size, p, tree);
        neighbours += place.children.size() + (place.parent == comm::kNobody ? 0 : 1);
      }
      EXPECT_EQ(trial.sent(p), count / 2 * neighbours);
      EXPECT_LE(trial.sent(p), 2 * count);
    }
    EXPECT_LE(trial.rounds(), 2 * (2 * segments + 2 * (doubling_rounds(size) + 1)));
  }
}

TEST(DoubleTree, GivesNoPositionChildrenInBothTrees) {
  for (int size = 1; size <= 70; ++size) {
    for (int p = 0; p < size; ++p) {
      EXPECT_TRUE(tree_place(size, p, Tree::kFirst).children.empty() ||
                  tree_place(size, p, Tree::kSecond).children.empty())
          << "position " << p << " of " << size;
    }
  }
}

TEST(DoubleTree, ReachesEveryPositionFromOneRootInLogSteps) {
  for (int size = 1; size <= 70; ++size) {
    for (const Tree tree : {Tree::kFirst, Tree::kSecond}) {
      int roots = 0;
      for (int p = 0; p < size; ++p) {
        const TreePlace place = tree_place(size, p, tree);
        EXPECT_LE(place.children.size(), 2U);
        for (const int child : place.children) {
          EXPECT_EQ(tree_place(size, child, tree).parent, p) << "size " << size;
        }
        int depth = 0;
        for (int at = p; tree_place(size, at, tree).parent != comm::kNobody && depth <= size;
             ++depth) {
          at = tree_place(size, at, tree).parent;
        }
        roots += depth == 0 ? 1 : 0;
        EXPECT_LE(depth, doubling_rounds(size) + 1) << "position " << p << " of " << size;
      }
      EXPECT_EQ(roots, 1) << "size " << size;
    }
  }
}

TEST(AllToAllVolume, IsOnceInPairsAndHalfTheDataPerRoundInBruck) {
  for (const int size : {1, 2, 3, 4, 7, 8, 16}) {
    const std::size_t part = 5;
    const std::vector<std::vector<std::size_t>> counts(real(size),
                                                       std::vector<std::size_t>(real(size), part));
    const auto run = [&](const char* name) {
      CollectiveTrial trial(test::whole_world(size), [&](const Group& group) {
        return collectives::find_algorithm(OpKind::kAllToAll, name)
            .schedule(CollectiveRequest::of(OpKind::kAllToAll, group, part * real(size)));
      });
      EXPECT_TRUE(trial.all_to_all(counts)) << name;
      return trial;
    };
    std::size_t bits = 0;  // of all distances: how often a chunk travels
    for (unsigned i = 0; i < static_cast<unsigned>(size); ++i) {
      bits += static_cast<std::size_t>(std::popcount(i));
    }
    const CollectiveTrial pairwise = run("pairwise");
    const CollectiveTrial bruck = run("bruck");
    EXPECT_EQ(pairwise.rounds(), size - 1);
    EXPECT_EQ(bruck.rounds(), doubling_rounds(size));
    for (int p = 0; p < size; ++p) {
      EXPECT_EQ(pairwise.sent(p), part * real(size - 1));
      EXPECT_EQ(bruck.sent(p), part * bits);
    }
  }
}

TEST(RootedVolume, IsWhatTheHeadersSay) {
  for (const int size : {1, 2, 3, 5, 8, 16}) {
    const std::size_t count = 10 * real(size);
    const Chunks chunks = Chunks::even({0, count}, size);
    const int root = size / 2;
    const auto trial_of = [&](OpKind op, const char* name) {
      return CollectiveTrial(test::whole_world(size), [&](const Group& group) {
        CollectiveRequest request = CollectiveRequest::of(op, group, count);
        request.root = root;
        return collectives::find_algorithm(op, name).schedule(request);
      });
    };
    CollectiveTrial linear = trial_of(OpKind::kBroadcast, "linear");
    EXPECT_TRUE(linear.broadcast(count, root));
    EXPECT_EQ(linear.rounds(), size - 1);
    EXPECT_EQ(linear.sent(root), count * real(size - 1));

    CollectiveTrial reduce = trial_of(OpKind::kReduce, "binomial");
    EXPECT_TRUE(reduce.reduce(count, root));
    EXPECT_EQ(reduce.rounds(), doubling_rounds(size));
    for (int p = 0; p < size; ++p) EXPECT_EQ(reduce.sent(p), p == root ? 0 : count);

    CollectiveTrial large = trial_of(OpKind::kBroadcast, "scatter-all-gather");
    EXPECT_TRUE(large.broadcast(count, root));
    EXPECT_LE(large.sent(root), 2 * count * real(size - 1) / real(size));

    CollectiveTrial scatter = trial_of(OpKind::kScatter, "binomial");
    EXPECT_TRUE(scatter.scatter(chunks, root));
    EXPECT_EQ(scatter.sent(root), count * real(size - 1) / real(size));
    EXPECT_LE(scatter.rounds(), doubling_rounds(size) + 2);
  }
}

}  // namespace
}  // namespace ultra
