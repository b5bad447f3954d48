#include "chapters/04_zero/shards/gradient_shards.hpp"

#include "chapters/04_zero/shards/shard_groups.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/exercises/03_data_parallel/replica.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;
using data_parallel::test::make_gradient;

/// A rank's model, whose gradients the tests make themselves.
struct Rank {
  /// @param passes  backward passes of a step.
  Rank(const Communicator& dp, const ZeroCase& c, Departure departure = Departure::kWhenComplete,
       std::size_t passes = 1)
      : model(c.options.model, device, c.options.dtype, c.options.seed, factory,
              nn::StageSpec::whole(c.options.model), nn::Values::kDeferred),
        groups(groups_of(model, c)),
        ranks(make_shard_groups(dp, c.node_size)),
        shards(std::make_unique<GradientShards>(
            groups,
            shard_reducer(groups, ranks, c.settings.overlap,
                          train::StepSchedule(passes, {.kind = train::ActionKind::kBackward})),
            departure)) {}

  /// A backward pass: parameter p gets the gradient `first` + p.
  void backward(double first) {
    shards->action_begins(0);
    for (std::size_t p = model.parameters().size(); p-- > 0;) {
      make(p, first + static_cast<double>(p));
    }
    shards->action_ends(0);
  }

  /// The pass under way makes a parameter's gradient.
  void make(std::size_t p, double value) {
    make_gradient(*model.parameters()[p], value);
    shards->contributed(p);
  }

  /// Expects that every shard holds `first` + `times` p for parameter p, and zeros for padding.
  void expect_shards(double first, double times) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::vector<double> expected(groups[g].layout.shard, 0.0);
      for (const Piece& piece : groups[g].pieces(ranks.shards.rank())) {
        for (std::size_t e = piece.place.begin; e < piece.place.end; ++e) {
          expected[e] = first + times * static_cast<double>(groups[g].numbers[piece.tensor]);
        }
      }
      EXPECT_TRUE(all_equal(shards->shard(g), expected)) << groups[g].name;
    }
  }

  Device device = Device::cpu();
  nn::DenseFactory factory;
  nn::Model model;
  std::vector<ParameterGroup> groups;
  ShardGroups ranks;
  std::unique_ptr<GradientShards> shards;
};

class GradientShardsTest : public ZeroTest {
 protected:
  ZeroCase draw_any(int ranks) {
    ZeroCase c = draw(ranks, random.pick({ZeroStage::kGradients, ZeroStage::kParameters}),
                      random.pick({DType::kF32, DType::kF64}));
    return c;
  }
};

TEST_F(GradientShardsTest, PassesAddUpUntilTheyAreDropped) {
  const ZeroCase c = draw_any(3);
  on_ranks(c, [&](Communicator& dp) {
    Rank rank(dp, c);
    for (int pass = 0; pass < 4; ++pass) rank.backward(1);
    rank.shards->finish();
    rank.expect_shards(4 * 3, 4 * 3);
  });
}

TEST_F(GradientShardsTest, NoWholeGradientIsLeftAtAnyTime) {
  for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
    ZeroCase c = draw(2, ZeroStage::kParameters, DType::kF64);
    c.settings.overlap = overlap;
    c.options.model.num_layers = 3;
    on_ranks(c, [&](Communicator& dp) {
      Rank rank(dp, c);
      rank.shards->action_begins(0);
      for (const ParameterGroup& group : rank.groups) {
        for (std::size_t i = group.numbers.size(); i-- > 0;) rank.make(group.numbers[i], 1);
        for (const nn::Parameter* parameter : group.parameters) {
          EXPECT_FALSE(parameter->grad().defined()) << parameter->name() << " is on its way";
        }
      }
      rank.shards->action_ends(0);
      rank.shards->finish();
    });
  }
}

/// Complete gradients that may wait keep their memory until they are asked for, or another group's
/// gradients need it.
TEST_F(GradientShardsTest, WhatIsCompleteLeavesWhenItIsAskedForAndAtTheLatestForTheNextGroup) {
  ZeroCase c = draw(3, ZeroStage::kParameters, DType::kF64);
  c.options.model.num_layers = 3;
  on_ranks(c, [&](Communicator& dp) {
    Rank rank(dp, c, Departure::kWhenAsked);
    rank.shards->action_begins(0);
    for (std::size_t g = 0; g < rank.groups.size(); ++g) {
      const auto& numbers = rank.groups[g].numbers;
      for (std::size_t i = numbers.size(); i-- > 0;) rank.make(numbers[i], 1);
      const auto is_here = [&](std::size_t group) {
        return rank.groups[group].parameters.front()->grad().defined();
      };
      EXPECT_TRUE(is_here(g));
      if (g % 2 == 0) rank.shards->reduce_scatter();
      EXPECT_EQ(is_here(g), g % 2 == 1);
      if (g > 0) {
        EXPECT_FALSE(is_here(g - 1));
      }
    }
    rank.shards->action_ends(0);
    rank.shards->finish();
    rank.expect_shards(3, 0);
  });
}

/// Other ranks would reduce them in another order.
TEST_F(GradientShardsTest, AGradientOfTheNextGroupMustWaitForThisGroups) {
  ZeroCase c = draw_any(1);
  c.settings.stage = ZeroStage::kParameters;
  on_ranks(c, [&](Communicator& dp) {
    Rank rank(dp, c);
    const auto& last = rank.groups[0].numbers;
    const auto& other = rank.groups[1].numbers;
    rank.shards->action_begins(0);
    rank.make(last.back(), 1);
    EXPECT_THAT(message_of<InternalError>([&] { rank.make(other.back(), 1); }),
                ::testing::AllOf(HasSubstr("a gradient of " + rank.groups[1].name),
                                 HasSubstr("those of " + rank.groups[0].name)));
  });
}

TEST_F(GradientShardsTest, APassThatLeavesAParameterOutIsAnError) {
  const ZeroCase c = draw_any(1);
  on_ranks(c, [&](Communicator& dp) {
    Rank rank(dp, c);
    rank.shards->action_begins(0);
    for (std::size_t p = rank.model.parameters().size(); p-- > 1;) rank.make(p, 1);
    EXPECT_THROW(rank.shards->action_ends(0), InternalError);
  });
}

std::vector<int> members(const Communicator& group) {
  std::vector<int> ranks;
  for (int i = 0; i < group.size(); ++i) ranks.push_back(group.world_rank(i));
  return ranks;
}

TEST(ShardGroups, NodesAreConsecutiveRanksAndTwinsHaveTheSamePlace) {
  run_ranks(6, [](Communicator& dp) {
    const ShardGroups groups = make_shard_groups(dp, 2);
    const int first = dp.rank() / 2 * 2;
    EXPECT_EQ(groups.dp.size(), 6);
    EXPECT_EQ(members(groups.shards), (std::vector<int>{first, first + 1}));
    EXPECT_EQ(groups.shards.rank(), dp.rank() % 2);
    ASSERT_TRUE(groups.replicas);
    const int place = dp.rank() % 2;
    EXPECT_EQ(members(*groups.replicas), (std::vector<int>{place, place + 2, place + 4}));
    EXPECT_EQ(groups.replicas->rank(), dp.rank() / 2);
  });
}

TEST(NodeGroups, ARankHasItsNodeAndItsColumn) {
  run_ranks(6, [](Communicator& dp) {
    const NodeGroups nodes = make_node_groups(dp, 2);
    const int first = dp.rank() / 2 * 2;
    const int column = dp.rank() % 2;
    EXPECT_EQ(members(nodes.node), (std::vector<int>{first, first + 1}));
    EXPECT_EQ(nodes.node.rank(), column);
    EXPECT_EQ(members(nodes.across), (std::vector<int>{column, column + 2, column + 4}));
    EXPECT_EQ(nodes.across.rank(), dp.rank() / 2);
    EXPECT_EQ(nodes.node.name(), "node");
    EXPECT_EQ(nodes.across.name(), "across nodes");
  });
}

}  // namespace
}  // namespace ultra::zero
