#include "chapters/01_memory/estimate/trained_bytes.hpp"

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "common/optim/rules.hpp"

namespace ultra::memory {
namespace {

double real(std::size_t bytes) { return static_cast<double>(bytes); }

}  // namespace

StateWidths state_widths(const train::TrainOptions& options) {
  const StateBytes same = bytes_per_parameter(precision_of(options.dtype));
  const std::size_t states = optim::states_per_weight(options.optimizer);
  const double two_states = options.moment_bytes.value_or(real(same.optimizer));
  StateWidths widths{.parameters = real(same.parameters),
                     .gradients = real(same.gradients),
                     .optimizer = real(states) / 2 * two_states,
                     .states = states};
  if (!options.precision) return widths;
  widths.parameters = real(size_of(options.precision->parameters));
  widths.gradients = real(size_of(options.precision->gradients));
  if (options.precision->has_master_weights()) {
    widths.optimizer += real(size_of(options.precision->optimizer));
  }
  return widths;
}

// A layer with m maps has a row for its input, m for their weights, m for their gradients.

std::size_t attention_history(const train::TrainOptions& options) {
  constexpr std::size_t kRows = 7 + 3;  // q, k, v; o
  return options.fp8 ? kRows * options.fp8->history : 0;
}

std::size_t block_history(const train::TrainOptions& options) {
  constexpr std::size_t kRows = 5 + 3;  // gate, up; down
  return attention_history(options) + (options.fp8 ? kRows * options.fp8->history : 0);
}

Precision activation_precision(const train::TrainOptions& options) {
  if (options.fp8) return options.fp8->tile > 0 ? Precision::kFp8Tiles : Precision::kFp8Tensors;
  return is_half(options.formats().compute) ? Precision::kTwoBytes : precision_of(options.dtype);
}

}  // namespace ultra::memory
