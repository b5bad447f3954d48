#pragma once
/// @file
/// Stochastic gradient descent with momentum as an update rule.

#include "common/optim/update_rule.hpp"

namespace ultra::optim {

/// @brief Constants of SGD that stay the same for a whole run.
struct SgdConfig {
  double momentum = 0.9;      ///< decay of the sum of the gradients
  double weight_decay = 0.1;  ///< decoupled, as AdamW's, of tensors of two or more dimensions
};

/// @brief SGD with momentum: one state, "momentum_buffer", 4 bytes per weight in f32.
///
///     buffer = momentum buffer + gradient
///     value = value - learning_rate (buffer + weight_decay value)
///
/// Without decay this is torch.optim.SGD.
/// Memory: two tensors of the weights' size while one is updated.
/// Source: Sutskever et al. 2013, "On the importance of initialization and momentum", eq. 1 and 2, in
/// PyTorch's form, which multiplies by the learning rate last.
[[nodiscard]] Rule sgd(const SgdConfig& config = {});

}  // namespace ultra::optim
