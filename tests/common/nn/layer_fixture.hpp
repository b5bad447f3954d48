#pragma once
/// @file
/// A fixture that builds single layers and checks their backward pass.

#include <memory>
#include <vector>

#include "common/nn/layer_factory.hpp"
#include "tests/support/training/finite_difference.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::nn {

/// @brief A random configuration, the dense factory, and checks that hold for every layer.
class LayerTest : public test::RandomTest {
 protected:
  /// @brief What a factory gets when it builds a layer of `config` in that dtype.
  [[nodiscard]] BuildContext context(DType dtype = DType::kF64) {
    return {config,
            device,
            dtype,
            seed,
            std::make_shared<const ops::RopeTable>(device, dtype, config.core_head_dim(),
                                                   config.max_seq_len, config.rope_theta,
                                                   config.rope_scaling, config.rotated_dim()),
            factory};
  }

  /// @brief Random hidden states [batch, seq, hidden_size].
  [[nodiscard]] Tensor hidden_states(DType dtype = DType::kF64) {
    return random.tensor(
        device, {random.between(1, 2), random.between(1, config.max_seq_len), config.hidden_size},
        dtype);
  }

  /// @brief Large random weights, so that every gradient is of order one.
  void randomize(Module& module) {
    for (Parameter* parameter : module.parameters()) random.fill(parameter->value(), 0.4);
  }

  /// @brief Gradients against finite differences, an empty Saved after backward, and gradients of
  /// weights that a second micro-batch doubles.
  void check_layer(Layer& layer, const Tensor& x);

  ModelConfig config = test::random_model_config(random);  ///< drawn for each test
  DenseFactory factory;                                    ///< parts for one device
};

}  // namespace ultra::nn
