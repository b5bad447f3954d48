#include "common/train/gradients/model_states.hpp"

#include "common/optim/adamw.hpp"
#include "tests/common/train/run/rank_frame.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::train {
namespace {

using test::RankFrame;

/// Weights that every rank has, as a plain data parallel training keeps them.
class Replicated : public ultra::test::RandomTest {
 protected:
  Replicated() { options.global_batch = 12; }

  nn::Model make() { return {config, device, DType::kF64, seed, factory}; }

  void on_one_rank(const std::function<void(const RankFrame&)>& fn) {
    run_ranks(1, [&](Communicator& world) { fn(RankFrame(options, world)); });
  }

  /// Sets every gradient to the same number; returns the norm of all.
  static double set_gradients(const nn::Model& model, double value) {
    for (nn::Parameter* parameter : model.parameters()) {
      parameter->drop_grad();
      parameter->add_grad([value](const Tensor& grad, ops::Write) { grad.fill(value); });
    }
    return value * std::sqrt(ultra::test::count_of(model.parameter_count()));
  }

  TrainOptions options = ultra::test::short_run();
  nn::ModelConfig config = ultra::test::random_model_config(random);
  nn::DenseFactory factory;
};

TEST_F(Replicated, PiecesAreTheParametersAndOnlyMatricesDecay) {
  on_one_rank([&](const RankFrame& frame) {
    nn::Model model = make();
    const auto states = frame.states_of(model);
    set_gradients(model, 1);
    const auto updates = states->updates();
    ASSERT_EQ(states->pieces().size(), model.parameters().size());
    ASSERT_EQ(updates.size(), model.parameters().size());
    EXPECT_EQ(states->data_group(), nn::kDataGroup);
    EXPECT_EQ(states->exchange(), nullptr);
    for (std::size_t i = 0; i < updates.size(); ++i) {
      const nn::Parameter& parameter = *model.parameters()[i];
      EXPECT_EQ(states->pieces()[i].parameter, &parameter);
      EXPECT_EQ(states->pieces()[i].elements, (Range{0, parameter.count()}));
      EXPECT_TRUE(updates[i].value.shares_storage(parameter.value()));
      EXPECT_TRUE(updates[i].grad.shares_storage(parameter.grad()));
      EXPECT_EQ(updates[i].decay, parameter.shape().rank() == 2) << parameter.name();
    }
    states->drop_gradients();
    for (const nn::Parameter* p : model.parameters()) EXPECT_FALSE(p->grad().defined());
  });
}

TEST_F(Replicated, AnUpdateIsAStepOfAdamWOnClippedGradients) {
  on_one_rank([&](const RankFrame& frame) {
    nn::Model updated = make();
    const nn::Model expected = make();
    const auto states = frame.states_of(updated);
    optim::Optimizer optimizer(optim::adamw());
    for (std::size_t step = 1; step <= 3; ++step) {
      const double value = 1.0 / static_cast<double>(step);
      const StepRule rule{.learning_rate = 0.01 * static_cast<double>(step),
                          .norm = set_gradients(updated, value),
                          .clip_norm = step == 2 ? 0 : 0.25};
      states->update(states->updates(), rule);
      set_gradients(expected, value);
      std::vector<optim::TensorUpdate> updates;
      for (nn::Parameter* p : expected.parameters()) {
        updates.push_back({p->value(), p->grad(), p->value().shape().rank() > 1});
      }
      optimizer.step(updates, rule.learning_rate, step == 2 ? 1 : 0.25 / rule.norm);
      for (std::size_t i = 0; i < updates.size(); ++i) {
        EXPECT_TRUE(ultra::test::all_equal(updated.parameters()[i]->value(), updates[i].value));
      }
    }
    EXPECT_EQ(states->optimizer().steps(), 3);
  });
}

/// How many of the ranks do something with each piece, and how many elements each of them has.
struct Shared {
  std::vector<double> ranks_of_piece;
  std::vector<double> elements_of_rank;
};

Shared shared(const Communicator& world, const ModelStates& states,
              const std::function<bool(std::size_t piece)>& has) {
  Shared counts{std::vector(states.pieces().size(), 0.0),
                std::vector(static_cast<std::size_t>(world.size()), 0.0)};
  for (std::size_t i = 0; i < states.pieces().size(); ++i) {
    if (!has(i)) continue;
    counts.ranks_of_piece[i] = 1;
    counts.elements_of_rank[static_cast<std::size_t>(world.rank())] +=
        ultra::test::count_of(states.pieces()[i].elements.size());
  }
  sum_over(world, counts.ranks_of_piece);
  sum_over(world, counts.elements_of_rank);
  return counts;
}

TEST_F(Replicated, OneRankOwnsAndOneRankSavesEachElement) {
  for (const int ranks : {1, 2, 3, 4}) {
    run_ranks(ranks, [&](Communicator& world) {
      nn::Model model(config, Device::cpu(), DType::kF64, seed, factory);
      const auto states = RankFrame(options, world).states_of(model);
      const Shared owned = shared(world, *states, [&](std::size_t i) { return states->owns(i); });
      const Shared saved = shared(world, *states, [&](std::size_t i) { return states->saves(i); });
      const std::vector<double> once(model.parameters().size(), 1.0);
      EXPECT_EQ(owned.ranks_of_piece, once);
      EXPECT_EQ(saved.ranks_of_piece, once);
      double largest = 0;
      for (const nn::Parameter* p : model.parameters()) {
        largest = std::max(largest, ultra::test::count_of(p->count()));
      }
      const auto [least, most] = std::ranges::minmax(saved.elements_of_rank);
      EXPECT_LE(most - least, largest) << "who has least so far takes the next";
    });
  }
}

TEST_F(Replicated, WhatTheOwnerOfAnotherGroupCountsNobodyElseDoes) {
  on_one_rank([&](const RankFrame& frame) {
    nn::Model model = make();
    nn::Parameter& split = *model.parameters()[1];
    split.replicate({.group = "twins", .size = 2, .index = 1});
    const auto states = frame.states_of(model);
    for (std::size_t i = 0; i < states->pieces().size(); ++i) {
      EXPECT_EQ(states->owns(i), i != 1);
      EXPECT_EQ(states->saves(i), i != 1);
    }
  });
}

TEST_F(Replicated, ParametersOfADataGroupAreEachListedOnceInForwardOrder) {
  nn::Model model = make();
  const std::vector<nn::Parameter*>& all = model.parameters();
  nn::Model* const chunks[] = {&model, &model};
  EXPECT_EQ(parameters_of(chunks, nn::kDataGroup), all) << "two chunks share them";
  all[2]->set_data_group("experts");
  all[5]->set_data_group("experts");
  EXPECT_THAT(parameters_of(chunks, "experts"), ElementsAre(all[2], all[5]));
  EXPECT_EQ(parameters_of(chunks, nn::kDataGroup).size(), all.size() - 2);
  EXPECT_THAT(parameters_of(chunks, "nobody's"), IsEmpty());
}

}  // namespace
}  // namespace ultra::train
