#pragma once
/// @file
/// Quiet runs of replicated training, wired as the executable wires them, with their final weights.

#include <memory>
#include <vector>

#include "chapters/01_memory/gradient_accumulation.hpp"
#include "chapters/02_collectives/replicated_training.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/common/train/rank_runs.hpp"

namespace ultra::collectives::test {

/// @brief What one rank had at the end.
struct RankRun {
  train::TrainResult result;
  std::vector<std::vector<double>> weights;  ///< of each parameter, in the model's order
};

/// @brief Trains on the ranks of `world` and keeps the weights that the optimizer wrote.
inline RankRun run_with(const train::ForwardBackward& forward_backward, const Communicator& world,
                        const train::TrainOptions& options) {
  nn::DenseFactory factory;
  std::vector<Tensor> values;
  const auto adamw = [&values](const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                               const Tensor& second_moment, const ops::AdamWStep& constants) {
    ops::adamw_into(value, grad, first_moment, second_moment, constants);
    for (const Tensor& known : values) {
      if (known.shares_storage(value)) return;
    }
    values.push_back(value);
  };
  RankRun run;
  run.result = train::train(options,
                            {.factory = factory,
                             .forward_backward = forward_backward,
                             .update = train::clipped_adamw(options, adamw),
                             .extra_config = {}},
                            world);
  for (const Tensor& value : values) run.weights.push_back(value.to_vector());
  return run;
}

/// @brief Replicated training on the ranks of `world`.
inline RankRun run_replicated(const Communicator& world, const train::TrainOptions& options) {
  return run_with(replicated_forward_backward(world, options.micro_batch), world, options);
}

/// @brief Chapter 01's training, by this rank alone: no communication in its passes.
inline RankRun run_alone(const Communicator& world, const train::TrainOptions& options) {
  const auto forward_backward = [&](nn::Model& model, const data::Sampler& sampler,
                                    std::size_t step) {
    return memory::accumulate_gradients(model, sampler, step, options.micro_batch);
  };
  return run_with(forward_backward, train::test::alone(world), options);
}

}  // namespace ultra::collectives::test
