#include "chapters/01_memory/estimate/trained_bytes.hpp"

#include "chapters/01_memory/estimate/model_presets.hpp"

namespace ultra::memory {
namespace {

double real(std::size_t bytes) { return static_cast<double>(bytes); }

}  // namespace

StateWidths state_widths(const train::TrainOptions& options) {
  const StateBytes same = bytes_per_parameter(precision_of(options.dtype));
  StateWidths widths{.parameters = real(same.parameters),
                     .gradients = real(same.gradients),
                     .optimizer = options.moment_bytes.value_or(real(same.optimizer))};
  if (!options.precision) return widths;
  widths.parameters = real(size_of(options.precision->parameters));
  widths.gradients = real(size_of(options.precision->gradients));
  if (options.precision->has_master_weights()) {
    widths.optimizer += real(size_of(options.precision->optimizer));
  }
  return widths;
}

Precision activation_precision(const train::TrainOptions& options) {
  return is_half(options.formats().compute) ? Precision::kTwoBytes : precision_of(options.dtype);
}

}  // namespace ultra::memory
