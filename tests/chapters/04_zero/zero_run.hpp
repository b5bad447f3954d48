#pragma once
/// @file
/// Training runs with ZeRO, and the runs that they must equal.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "chapters/01_memory/recompute.hpp"
#include "chapters/02_collectives/replicated_training.hpp"
#include "chapters/03_data_parallel/data_parallel_training.hpp"
#include "chapters/03_data_parallel/gradient_average.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/zero_training.hpp"
#include "common/ops/elementwise.hpp"
#include "tests/chapters/02_collectives/replicated_run.hpp"
#include "tests/chapters/02_collectives/run_comparison.hpp"
#include "tests/chapters/04_zero/zero_case.hpp"
#include "tests/support/compare.hpp"

namespace ultra::zero::test {

using collectives::test::expect_near_losses;
using collectives::test::expect_near_weights;
using collectives::test::losses_and_norms;
using collectives::test::RankRun;
using collectives::test::run_alone;
using collectives::test::run_with;
using train::test::expect_same_on_all;

// Runs --------------------------------------------------------------------------------------------

/// @brief What a test may put into a run.
struct Changes {
  optim::AdamWUpdate adamw = ops::adamw_into;
  std::function<train::ForwardBackward(train::ForwardBackward)> passes;
  std::function<train::Update(train::Update)> update;
  std::function<void(const Device&)> device;  ///< called with the rank's device before its model
};

/// @brief Trains with ZeRO on the ranks of `dp`, as the executable wires it.
inline train::TrainResult train_zero(const Communicator& dp, const ZeroCase& c,
                                     const Changes& changes = {}) {
  nn::DenseFactory dense;
  memory::RecomputeFactory factory(dense, c.recompute);
  const train::MakeWorker make = zero_worker(make_shard_groups(dp, c.node_size), c.settings,
                                             {.factory = factory,
                                              .micro_batch = c.micro_batch,
                                              .adamw = changes.adamw,
                                              .change_passes = changes.passes,
                                              .change_update = changes.update});
  const train::MakeWorker make_on_device = [&](const train::RunContext& context) {
    if (changes.device) changes.device(context.device);
    return make(context);
  };
  return train::train(c.options, make_on_device, {}, dp);
}

/// @brief What one rank of a sharded run had at the end.
struct ZeroRun : RankRun {  // its weights: those of all shards together
  std::vector<double> own;  ///< the pieces that this rank updates, one after the other
  /// What the rank's model has, where it has everything: in stages 1 and 2.
  std::vector<std::vector<double>> replica;
};

/// @brief The flat arrays of a model, which of a run's stage they are; no weights are made.
inline std::vector<ParameterGroup> groups_of(const nn::Model& model, const ZeroCase& c) {
  return c.settings.stage == ZeroStage::kParameters
             ? groups_by_part(model, c.shards())
             : groups_by_bucket(model, c.settings.bucket_capacity, c.shards());
}

/// @brief A model of the case without weights.
inline nn::Model deferred_model(const ZeroCase& c, nn::LayerFactory& factory) {
  return {c.options.model,      Device::cpu(), c.options.dtype,
          c.options.seed,       factory,       nn::StageSpec::whole(c.options.model),
          nn::Values::kDeferred};
}

/// @brief All weights, from the pieces that the ranks of a copy own. Collective over shards.
inline std::vector<std::vector<double>> gathered(const std::vector<double>& own, const ZeroCase& c,
                                                 const Communicator& shards) {
  nn::DenseFactory factory;
  const nn::Model model = deferred_model(c, factory);
  std::vector<std::vector<double>> weights;
  for (const nn::Parameter* parameter : model.parameters()) {
    weights.emplace_back(parameter->count(), 0.0);
  }
  auto next = own.begin();
  for (const ParameterGroup& group : groups_of(model, c)) {
    for (const Piece& piece : pieces_of(group.layout, shards.rank())) {
      const auto size = static_cast<std::ptrdiff_t>(piece.elements.size());
      if (own.end() - next < size) throw std::runtime_error("pieces are missing");
      std::copy_n(next, size,
                  weights[group.numbers[piece.tensor]].begin() +
                      static_cast<std::ptrdiff_t>(piece.elements.begin));
      next += size;
    }
  }
  EXPECT_EQ(next, own.end()) << "pieces that no parameter has";
  for (std::vector<double>& weight : weights) {
    const Tensor sum = Tensor::from<double>(Device::cpu(), {weight.size()}, weight).clone();
    shards.all_reduce(sum);  // exact: the others have zeros there
    weight = sum.to_vector();
  }
  return weights;
}

/// @brief Trains with ZeRO and brings the weights together.
inline ZeroRun run_zero(const Communicator& dp, const ZeroCase& c) {
  ZeroRun run;
  Changes changes;
  changes.adamw = [&](const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                      const Tensor& second_moment, const ops::AdamWStep& constants) {
    ops::adamw_into(value, grad, first_moment, second_moment, constants);
    if (constants.step != static_cast<int>(c.options.steps)) return;
    const std::vector<double> values = value.to_vector();  // offloaded ones are here for a moment
    run.own.insert(run.own.end(), values.begin(), values.end());
  };
  changes.update = [&](train::Update inner) -> train::Update {
    return [&, inner = std::move(inner)](nn::Model& model, const train::StepPlan& plan) {
      const double norm = inner(model, plan);
      run.replica.clear();
      for (const nn::Parameter* parameter : model.parameters()) {
        if (parameter->has_value()) run.replica.push_back(parameter->value().to_vector());
      }
      return norm;
    };
  };
  run.result = train_zero(dp, c, changes);
  run.weights = gathered(run.own, c, make_shard_groups(dp, c.node_size).shards);
  return run;
}

/// @brief Chapter 03's training, its gradients averaged when all micro-batches are over.
inline RankRun run_plain(const Communicator& dp, const ZeroCase& c) {
  return run_with(
      data_parallel::data_parallel_forward_backward(
          dp, c.micro_batch,
          [&](nn::Model& model) { return data_parallel::sync_after_backward(model, dp); }),
      dp, c.options);
}

/// @brief Plain data parallelism in ZeRO-2's order: each micro-batch's gradients are averaged over
/// the replicas, then added up. A replica that has no micro-batch left has zeros.
inline RankRun run_averaging_each_pass(const Communicator& dp, const ZeroCase& c) {
  const auto passes = [&dp, &c](nn::Model& model, const data::Sampler& global, std::size_t step) {
    const Range share = data_parallel::share_of_batch(global.global_batch_size(), dp);
    const data::Sampler own = global.share(share);
    std::vector<Tensor> sums;
    double loss = 0;
    for (std::size_t pass = 0; pass < c.passes(); ++pass) {
      const std::size_t begin = std::min(pass * c.micro_batch, share.size());
      const std::size_t end = std::min(begin + c.micro_batch, share.size());
      if (begin < end) {
        const data::Batch batch = own.batch(model.device(), step, {begin, end});
        nn::Saved saved;
        loss += model.loss(model.forward(batch.tokens, saved), batch.targets,
                           data_parallel::loss_normalizer(global, dp), saved);
        model.backward(saved);
      }
      for (std::size_t p = 0; p < model.parameters().size(); ++p) {
        nn::Parameter& parameter = *model.parameters()[p];
        const Tensor average =
            begin < end ? parameter.grad().clone()
                        : Tensor::zeros(model.device(), parameter.shape(), parameter.dtype());
        dp.all_reduce(average, ReduceOp::kAverage);
        if (pass == 0) {
          sums.push_back(average);
        } else {
          ops::add_into(sums[p], average);
        }
      }
      model.drop_grads();
    }
    for (std::size_t p = 0; p < sums.size(); ++p) {
      model.parameters()[p]->add_grad(
          [&](const Tensor& grad, ops::Write write) { ops::write_or_add(grad, sums[p], write); });
    }
    return collectives::average(loss, model.device(), dp);
  };
  return run_with(passes, dp, c.options);
}

// Comparisons -------------------------------------------------------------------------------------

inline std::vector<double> losses(const train::TrainResult& result) {
  std::vector<double> numbers;
  for (const train::StepMetrics& step : result.steps) numbers.push_back(step.loss);
  return numbers;
}

/// @brief Gradient norms within a relative distance: shards add their squares up in another order.
inline void expect_near_norms(const train::TrainResult& actual, const train::TrainResult& expected,
                              double relative) {
  ASSERT_EQ(actual.steps.size(), expected.steps.size());
  for (std::size_t i = 0; i < expected.steps.size(); ++i) {
    const double norm = expected.steps[i].grad_norm;
    EXPECT_NEAR(actual.steps[i].grad_norm, norm, relative * norm) << "step " << i + 1;
  }
}

/// @brief Losses and weights of a sharded run bit for bit those of a run in which each rank has all.
inline void expect_same_bits(const ZeroRun& actual, const RankRun& expected) {
  EXPECT_EQ(losses(actual.result), losses(expected.result));
  expect_near_norms(actual.result, expected.result, 1e-12);
  EXPECT_TRUE(actual.weights == expected.weights) << "weights";
  if (!actual.replica.empty()) {
    EXPECT_TRUE(actual.replica == expected.weights) << "what is gathered";
  }
}

}  // namespace ultra::zero::test
