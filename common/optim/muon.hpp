#pragma once
/// @file
/// Muon as an update rule: the momentum of a matrix, with its singular values made equal.

#include "common/optim/newton_schulz.hpp"
#include "common/optim/update_rule.hpp"

namespace ultra::optim {

/// @brief Constants of Muon that stay the same for a whole run.
struct MuonConfig {
  double momentum = 0.95;           ///< decay of the sum of the gradients
  double weight_decay = 0.1;        ///< decoupled, as AdamW's
  double root_mean_square = 0.2;    ///< of a step's elements, over the learning rate
  NewtonSchulz newton_schulz = {};  ///< of the steps
};

/// @brief Muon for matrices, and another rule for all other weights.
///
///     buffer = momentum buffer + gradient
///     direction = Newton-Schulz(gradient + momentum buffer)
///     value = value - learning_rate (0.2 sqrt(max(rows, columns)) direction + weight_decay value)
///
/// One state of a matrix, "momentum_buffer": 4 bytes per weight in f32, half of AdamW's. The factor gives
/// a step's elements the root mean square of AdamW's, so that both rules share one learning rate.
/// Memory: two tensors of the weights' size while one is updated, and what newton_schulz() takes; with a
/// MatrixExchange the directions of all matrices at once.
/// Source: K. Jordan, github.com/KellerJordan/Muon, with Nesterov's momentum; factor and weight decay:
/// Liu et al. 2025, "Muon is Scalable for LLM Training", arXiv 2502.16982, section 2.2, as in
/// github.com/MoonshotAI/Moonlight, examples/toy_train.py.
[[nodiscard]] Rule muon(Rule others, const MuonConfig& config = {});

}  // namespace ultra::optim
