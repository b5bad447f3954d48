#pragma once
/// @file
/// A replica's model and data, and the baseline that all replicas together must match: the whole
/// batch on one device, in one pass.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/data/dataset.hpp"
#include "common/nn/model.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/model.hpp"
#include "tests/support/random.hpp"

namespace ultra::data_parallel::test {

using ultra::test::Random;

/// The step that replicas make: not the first, so that nothing depends on its being 0.
inline constexpr std::size_t kStep = 3;

/// @brief Random bytes to train on.
inline data::Dataset random_text(Random& random) {
  std::vector<std::uint8_t> text(500);
  for (std::uint8_t& byte : text) byte = static_cast<std::uint8_t>(random.between(0, 255));
  return {std::move(text), "random bytes"};
}

/// @brief A small model of bytes.
inline nn::ModelConfig random_config(Random& random) {
  nn::ModelConfig config = ultra::test::random_model_config(random);
  config.vocab_size = data::kByteVocabulary;
  return config;
}

/// @brief A rank's model. All replicas of one seed have the same weights, of order one.
struct Replica {
  Replica(const nn::ModelConfig& config, DType dtype, std::uint64_t seed)
      : model(config, device, dtype, seed, factory) {
    Random random(seed);
    ultra::test::randomize_weights(random, model);
  }

  Device device = Device::cpu();
  nn::DenseFactory factory;
  nn::Model model;
};

/// @brief A loss and the gradients of all parameters.
struct Gradients {
  double loss = 0;
  std::vector<Tensor> of;  ///< in the order of the parameters
};

/// @brief Forward and backward over sequences `samples` of the step in one pass.
inline double one_pass(nn::Model& model, const data::Sampler& sampler, Range samples,
                       double normalizer) {
  const data::Batch batch = sampler.batch(model.device(), kStep, samples);
  return ultra::test::run_step(model, {batch.tokens, batch.targets}, normalizer);
}

/// @brief The whole batch on one device.
inline Gradients on_one_device(const nn::ModelConfig& config, DType dtype, std::uint64_t seed,
                               const data::Sampler& sampler) {
  Replica replica(config, dtype, seed);
  Gradients result;
  result.loss = one_pass(replica.model, sampler, {0, sampler.global_batch_size()},
                         static_cast<double>(sampler.global_tokens()));
  result.of = ultra::test::gradients_of(replica.model);
  return result;
}

/// @brief Expects a model's gradients within `relative` of the size of the expected ones.
/// @param hint  what a failure says.
inline void expect_gradients(const nn::Model& model, const Gradients& expected, double relative,
                             const std::string& hint) {
  double scale = 0;
  for (const Tensor& gradient : expected.of) {
    scale = std::max(scale, ultra::test::largest_magnitude(gradient.to_vector()));
  }
  for (std::size_t p = 0; p < expected.of.size(); ++p) {
    const nn::Parameter& parameter = *model.parameters()[p];
    const auto near =
        parameter.grad().defined()
            ? ultra::test::all_near(parameter.grad(), expected.of[p], relative * scale)
            : ::testing::AssertionFailure() << "there is no gradient";
    EXPECT_TRUE(near) << parameter.name() << "\n" << hint;
    if (!near) return;
  }
}

/// @brief Gives a parameter a gradient, as the backward pass does.
inline void make_gradient(nn::Parameter& parameter, double value) {
  parameter.add_grad([value](const Tensor& grad, ops::Write) { grad.fill(value); });
}

}  // namespace ultra::data_parallel::test
