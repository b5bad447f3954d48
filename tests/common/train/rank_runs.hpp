#pragma once
/// @file
/// Quiet training runs on several ranks, threads or processes, with the plainest data parallelism.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "common/comm/run_ranks.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/short_run.hpp"

namespace ultra::train::test {

/// @brief Each rank's share of the global batch in one pass, gradients and loss averaged.
inline ForwardBackward replicated(const Communicator& world) {
  return [world](nn::Model& model, const data::Sampler& sampler, std::size_t step) {
    const std::size_t size = sampler.global_batch_size() / static_cast<std::size_t>(world.size());
    const std::size_t begin = static_cast<std::size_t>(world.rank()) * size;
    const data::Sampler own = sampler.share({begin, begin + size});
    const data::Batch batch = own.batch(model.device(), step, {0, size});
    nn::Saved saved;
    const double own_loss = model.loss(model.forward(batch.tokens, saved), batch.targets,
                                       static_cast<double>(own.global_tokens()), saved);
    model.backward(saved);
    for (const nn::Parameter* parameter : model.parameters()) {
      world.all_reduce(parameter->grad(), ReduceOp::kAverage);
    }
    const Tensor loss = Tensor::empty(model.device(), {1}, DType::kF64);
    loss.fill(own_loss);
    world.all_reduce(loss, ReduceOp::kAverage);
    return loss.to_vector()[0];
  };
}

/// @brief Trains on the ranks of `world`.
/// @param change  changes this rank's forward and backward passes; may be empty.
inline TrainResult train_replicated(
    const TrainOptions& options, const Communicator& world,
    const std::function<ForwardBackward(ForwardBackward)>& change = {}) {
  nn::DenseFactory factory;
  const ForwardBackward plain = replicated(world);
  return train(options,
               {.factory = factory,
                .forward_backward = change ? change(plain) : plain,
                .update = clipped_adamw(options),
                .extra_config = {}},
               world);
}

/// @brief A world of this rank alone, in which it can train by itself.
inline Communicator alone(const Communicator& world) {
  return world.split(world.rank(), 0, "alone");
}

/// @brief Calls `fn` and keeps what it prints to itself, unless a check in it has failed.
inline std::string quietly(const std::function<void()>& fn) {
  const std::string printed = ultra::test::printed_by(fn);
  if (::testing::Test::HasFailure()) std::fputs(printed.c_str(), stdout);
  return printed;
}

/// @brief Expects the same numbers on all ranks, bit for bit. Collective.
inline void expect_same_on_all(const Communicator& world, const std::vector<double>& values) {
  const Tensor first = Tensor::from<double>(Device::cpu(), {values.size()}, values).clone();
  world.broadcast(first, 0);
  EXPECT_EQ(first.to_vector(), values) << "rank " << world.rank() << " against rank 0";
}

}  // namespace ultra::train::test
