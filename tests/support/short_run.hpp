#pragma once
/// @file
/// A training run of a fraction of a second, for tests of what surrounds the model.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "build_config.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/train/trainer.hpp"

namespace ultra::test {

/// A small text that no edit of a chapter changes.
inline const std::string kText = std::string(build::kSourceDir) + "/tests/data/arithmetic.txt";

/// A model of some thousand weights on that text.
inline train::TrainOptions short_run() {
  train::TrainOptions options;
  options.model = {.hidden_size = 24,
                   .num_layers = 2,
                   .num_heads = 4,
                   .num_kv_heads = 2,
                   .ffn_hidden_size = 40,
                   .max_seq_len = 16};
  options.global_batch = 4;
  options.micro_batch = 2;
  options.steps = 5;
  options.warmup = 2;
  options.data = kText;
  return options;
}

/// The parts of an ordinary training on one device.
inline train::TrainerParts dense_parts(nn::LayerFactory& factory,
                                       const train::TrainOptions& options) {
  const auto forward_backward = [micro_batch = options.micro_batch](nn::Model& model,
                                                                    const data::Sampler& sampler,
                                                                    std::size_t step) {
    double loss = 0;
    for (std::size_t i = 0; i < sampler.global_batch_size(); i += micro_batch) {
      const data::Batch batch = sampler.batch(model.device(), step, {i, i + micro_batch});
      nn::Saved saved;
      loss += model.loss(model.forward(batch.tokens, saved), batch.targets,
                         static_cast<double>(sampler.global_tokens()), saved);
      model.backward(saved);
    }
    return loss;
  };
  return {.factory = factory,
          .forward_backward = forward_backward,
          .update = train::clipped_adamw(options),
          .extra_config = {}};
}

/// Runs `fn` and returns what it printed on stdout, also when it throws.
template <class Fn>
std::string printed_by(Fn&& fn) {
  ::testing::internal::CaptureStdout();
  try {
    fn();
  } catch (...) {
    static_cast<void>(::testing::internal::GetCapturedStdout());
    throw;
  }
  return ::testing::internal::GetCapturedStdout();
}

/// A quiet run with the parts of dense_parts.
inline train::TrainResult train_quietly(const train::TrainOptions& options) {
  nn::DenseFactory factory;
  train::TrainResult result;
  static_cast<void>(
      printed_by([&] { result = train::train(options, dense_parts(factory, options)); }));
  return result;
}

}  // namespace ultra::test
