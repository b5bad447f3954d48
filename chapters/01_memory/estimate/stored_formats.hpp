#pragma once
/// @file
/// StoredFormats: in which formats a training stores its numbers, as the closed forms know them.

#include <cstddef>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/01_memory/memory_estimate.hpp"
#include "common/tensor/dtype.hpp"

namespace ultra::memory {

/// @brief Bytes per parameter of a training's states. Moments in blocks with scales of their own take
/// a fraction of a byte more.
struct StateWidths {
  double parameters;       ///< the weights that the passes compute with
  double gradients;        ///< their gradients
  double state;            ///< a state of the optimizer
  double masters = 0;      ///< master weights, where there are any
  std::size_t states = 2;  ///< that the optimizer keeps

  /// @brief All that the optimizer keeps.
  [[nodiscard]] double optimizer() const { return static_cast<double>(states) * state + masters; }
  bool operator==(const StateWidths&) const = default;
};

/// @brief What a training stores.
struct StoredFormats {
  StateWidths states;         ///< of weights, gradients and the optimizer
  NumberFormats activations;  ///< between forward and backward passes
  std::size_t history = 0;    ///< f32 numbers that fp8 keeps of each tensor's largest magnitudes

  /// @brief Further weights of a block, in f32 and on every rank that has the block: the histories of
  /// its linear maps. A layer with m maps has a row for its input, m for their weights, m for their
  /// gradients.
  [[nodiscard]] std::size_t block_history() const {
    constexpr std::size_t kRows = 5 + 3;  // gate, up; down
    return attention_history() + kRows * history;
  }
  /// @brief The same of a block whose feed-forward part has none.
  [[nodiscard]] std::size_t attention_history() const {
    constexpr std::size_t kRows = 7 + 3;  // q, k, v; o
    return kRows * history;
  }
};

/// @brief Those of a training whose numbers are all of one type.
/// @throws ConfigError for a type that no training runs in.
[[nodiscard]] inline StoredFormats all_in(DType dtype) {
  const NumberFormats precision = precision_of(dtype);
  const StateBytes bytes = bytes_per_parameter(precision);
  return {.states = {.parameters = static_cast<double>(bytes.parameters),
                     .gradients = static_cast<double>(bytes.gradients),
                     .state = static_cast<double>(bytes.optimizer) / 2},
          .activations = precision};
}

}  // namespace ultra::memory
