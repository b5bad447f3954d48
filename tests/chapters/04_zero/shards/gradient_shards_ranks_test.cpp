#include "chapters/04_zero/shards/gradient_shards.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/exercises/03_data_parallel/replica.hpp"
#include "tests/support/compare.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;
using data_parallel::Pass;
using data_parallel::test::make_gradient;
using ::testing::HasSubstr;
using ultra::test::message_of;

/// A rank's model, whose gradients the tests make themselves.
struct Rank {
  Rank(const Communicator& dp, const ZeroCase& c)
      : model(c.options.model, device, c.options.dtype, c.options.seed, factory,
              nn::StageSpec::whole(c.options.model), nn::Values::kDeferred),
        groups(groups_of(model, c)),
        ranks(make_shard_groups(dp, c.node_size)),
        shards(std::make_unique<GradientShards>(model, groups, ranks, c.settings.overlap)) {}

  /// A backward pass: parameter p gets the gradient `first` + p.
  void backward(double first) {
    for (std::size_t p = model.parameters().size(); p-- > 0;) {
      make_gradient(*model.parameters()[p], first + static_cast<double>(p));
    }
  }

  /// Expects that every shard holds `first` + p for parameter p, and zeros for padding.
  void expect_shards(double first) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const FlatLayout& layout = groups[g].layout;
      std::vector<double> expected(layout.shard, 0.0);
      for (const Piece& piece : pieces_of(layout, ranks.shards.rank())) {
        for (std::size_t e = piece.place.begin; e < piece.place.end; ++e) {
          expected[e] = first + static_cast<double>(groups[g].numbers[piece.tensor]);
        }
      }
      EXPECT_TRUE(ultra::test::all_equal(shards->shard(g), expected)) << groups[g].name;
    }
  }

  [[nodiscard]] std::size_t gradient_bytes() const {
    return device.memory().current()[MemoryCategory::kGradients];
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

TEST_F(GradientShardsTest, ShardsHoldTheAverages) {
  for (const int ranks : {1, 2, 3, 5}) {  // the average of 0, 1, ..., ranks - 1 is exact
    const ZeroCase c = draw_any(ranks);
    on_ranks(c, [&](Communicator& dp) {
      Rank rank(dp, c);
      for (int step = 0; step < 2; ++step) {
        rank.shards->begin(Pass::kSynchronize);
        rank.backward(dp.rank() + step);
        rank.shards->finish();
        rank.expect_shards(0.5 * (ranks - 1) + step);
        rank.shards->drop();
        EXPECT_EQ(rank.gradient_bytes(), 0U);
      }
    });
  }
}

TEST_F(GradientShardsTest, PassesAddUpUntilTheyAreDropped) {
  const ZeroCase c = draw_any(3);
  on_ranks(c, [&](Communicator& dp) {
    Rank rank(dp, c);
    for (const bool last : {false, false, true}) {
      rank.shards->begin(last ? Pass::kSynchronize : Pass::kAccumulate);
      rank.backward(0);
    }
    rank.shards->finish();
    for (std::size_t g = 0; g < rank.groups.size(); ++g) {
      const FlatLayout& layout = rank.groups[g].layout;
      for (const Piece& piece : pieces_of(layout, rank.ranks.shards.rank())) {
        const double p = static_cast<double>(rank.groups[g].numbers[piece.tensor]);
        EXPECT_THAT(rank.shards->shard(g).slice(0, piece.place).to_vector(),
                    ::testing::Each(3 * p));
      }
    }
  });
}

TEST_F(GradientShardsTest, NoWholeGradientIsLeftAtAnyTime) {
  for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
    ZeroCase c = draw(2, ZeroStage::kParameters, DType::kF64);
    c.settings.overlap = overlap;
    c.options.model.num_layers = 3;
    on_ranks(c, [&](Communicator& dp) {
      Rank rank(dp, c);
      rank.shards->begin(Pass::kSynchronize);
      for (const ParameterGroup& group : rank.groups) {
        for (std::size_t i = group.parameters.size(); i-- > 0;) {
          make_gradient(*group.parameters[i], 1);
        }
        for (const nn::Parameter* parameter : group.parameters) {
          EXPECT_FALSE(parameter->grad().defined()) << parameter->name() << " is on its way";
        }
      }
      rank.shards->finish();
    });
  }
}

TEST_F(GradientShardsTest, CopiesAverageTheirShards) {
  ZeroCase c = draw_any(4);
  c.node_size = 2;
  on_ranks(c, [&](Communicator& dp) {
    Rank rank(dp, c);
    rank.shards->begin(Pass::kSynchronize);
    rank.backward(dp.rank());
    rank.shards->finish();
    rank.expect_shards(1.5);
  });
}

TEST_F(GradientShardsTest, AParameterWithoutAGradientIsAnErrorThatNamesIt) {
  const ZeroCase c = draw_any(2);
  on_ranks(c, [&](Communicator& dp) {
    Rank rank(dp, c);
    const std::vector<nn::Parameter*>& parameters = rank.model.parameters();
    rank.shards->begin(Pass::kSynchronize);
    for (std::size_t p = parameters.size(); p-- > 1;) make_gradient(*parameters[p], 1);
    EXPECT_THAT(message_of<ConfigError>([&] { rank.shards->finish(); }),
                ::testing::AllOf(HasSubstr(parameters[0]->name()), HasSubstr("no gradient")));
  });
}

TEST_F(GradientShardsTest, TwoGradientsOfAParameterInOnePassAreAnError) {
  const ZeroCase c = draw_any(2);
  on_ranks(c, [&](Communicator& dp) {
    Rank rank(dp, c);
    nn::Parameter& last = *rank.model.parameters().back();
    rank.shards->begin(Pass::kSynchronize);
    make_gradient(last, 1);
    EXPECT_THAT(message_of<ConfigError>([&] { make_gradient(last, 1); }),
                ::testing::AllOf(HasSubstr(last.name()), HasSubstr("two gradients")));
  });
}

TEST_F(GradientShardsTest, CallsComeInTheirOrder) {
  const ZeroCase c = draw_any(1);
  on_ranks(c, [&](Communicator& dp) {
    Rank rank(dp, c);
    EXPECT_THROW(rank.shards->finish(), InternalError) << "no pass";
    rank.shards->begin(Pass::kAccumulate);
    rank.backward(1);
    EXPECT_THROW(rank.shards->finish(), InternalError) << "no pass that synchronizes";
    rank.shards->begin(Pass::kSynchronize);
    rank.backward(1);
    EXPECT_THROW(rank.shards->begin(Pass::kSynchronize), InternalError) << "no finish()";
  });
}

TEST_F(GradientShardsTest, WithoutThemGradientsAreTheModelsOwnAgain) {
  const ZeroCase c = draw_any(1);
  on_ranks(c, [&](Communicator& dp) {
    Rank rank(dp, c);
    rank.shards.reset();
    rank.backward(2);
    EXPECT_EQ(rank.gradient_bytes(), rank.model.parameter_count() * size_of(c.options.dtype));
    EXPECT_THAT(rank.model.parameters().front()->grad().to_vector(), ::testing::Each(2.0));
  });
}

}  // namespace
}  // namespace ultra::zero
