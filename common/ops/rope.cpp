#include "common/ops/rope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "common/base/errors.hpp"
#include "common/ops/backend/backend.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::ops {

double RopeScaling::operator()(double frequency) const {
  // How often the rotation goes round in the original sequence.
  const double waves = static_cast<double>(original_positions) * frequency / (2 * std::numbers::pi);
  if (waves > high_frequency_factor) return frequency;
  if (waves < low_frequency_factor) return frequency / factor;
  const double kept =
      (waves - low_frequency_factor) / (high_frequency_factor - low_frequency_factor);
  return (1 - kept) * frequency / factor + kept * frequency;
}

RopeTable::RopeTable(const Device& device, DType dtype, std::size_t head_dim,
                     std::size_t num_positions, double theta,
                     const std::optional<RopeScaling>& scaling, std::size_t rotated) {
  if (rotated == 0) rotated = head_dim;
  if (head_dim % 2 != 0) {
    throw ConfigError(
        fmt::format("rotary embedding needs an even head dimension, found {}", head_dim));
  }
  const std::size_t half = head_dim / 2;
  cosines_ = Tensor::empty(device, {num_positions, half}, dtype);
  sines_ = Tensor::empty(device, {num_positions, half}, dtype);
  if (!has_numbers(device.kind())) return;
  dispatch_float(dtype, [&]<class T>() {
    const HostView<T> cosines(cosines_, HostAccess::kWrite);
    const HostView<T> sines(sines_, HostAccess::kWrite);
    for (std::size_t i = 0; i < half; ++i) {
      const double unscaled =
          std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotated));
      const double turning = scaling ? (*scaling)(unscaled) : unscaled;
      const double frequency = 2 * i < rotated ? turning : 0;
      for (std::size_t p = 0; p < num_positions; ++p) {
        const double angle = static_cast<double>(p) * frequency;
        cosines[p * half + i] = static_cast<T>(std::cos(angle));
        sines[p * half + i] = static_cast<T>(std::sin(angle));
      }
    }
  });
}

void rope_into(const Tensor& x, const RopeTable& table, std::span<const std::int32_t> positions,
               Rotation rotation) {
  const std::size_t num_positions = table.cosines().size(0);
  const std::size_t half = table.cosines().size(1);
  if (x.shape().rank() != 4 || !x.is_contiguous() || x.size(3) != 2 * half ||
      x.size(1) != positions.size() || accumulation_dtype(x.dtype()) != table.cosines().dtype()) {
    throw ShapeError(fmt::format(
        "rope: expected contiguous [batch, {}, heads, {}] of {}, found {} of {}", positions.size(),
        2 * half, to_string(table.cosines().dtype()), x.shape().str(), to_string(x.dtype())));
  }
  const auto as_unsigned = [](std::int32_t position) {
    return static_cast<std::uint32_t>(position);  // negative ones are large then
  };
  const auto is_outside = [&](std::int32_t position) {
    return as_unsigned(position) >= num_positions;
  };
  std::uint32_t largest = 0;  // without a branch for each
  for (const std::int32_t position : positions) largest = std::max(largest, as_unsigned(position));
  if (!positions.empty() && largest >= num_positions) {
    throw ShapeError(fmt::format("rope: position {} is outside of the table's [0, {})",
                                 *std::ranges::find_if(positions, is_outside), num_positions));
  }
  backend_of(x.device()).rope(x, table, positions, rotation);
}

}  // namespace ultra::ops
