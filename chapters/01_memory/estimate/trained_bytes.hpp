#pragma once
/// @file
/// The formats of a training as the closed forms know them.

#include "chapters/01_memory/memory_estimate.hpp"
#include "common/train/options/options.hpp"

namespace ultra::memory {

/// @brief Bytes per parameter of a training's states.
struct StateWidths {
  double parameters;       ///< the weights that the passes compute with
  double gradients;        ///< their gradients
  double optimizer;        ///< the optimizer's states, and master weights where there are any
  std::size_t states = 2;  ///< the optimizer's, each of them a number for each parameter
};

/// @brief Those of a training. Moments in blocks with scales of their own take a fraction of a byte
/// more.
[[nodiscard]] StateWidths state_widths(const train::TrainOptions& options);

/// @brief Further weights of a block, in f32 and on every rank that has the block: the histories of
/// largest magnitudes that fp8 goes by.
[[nodiscard]] std::size_t block_history(const train::TrainOptions& options);
/// @brief The same of a block whose feed-forward part has none.
[[nodiscard]] std::size_t attention_history(const train::TrainOptions& options);

/// @brief The precision of a training's activations.
/// @throws ConfigError for a type that no training runs in.
[[nodiscard]] Precision activation_precision(const train::TrainOptions& options);

}  // namespace ultra::memory
