#pragma once
/// @file
/// AdamW's moments in bf16: four bytes per weight instead of eight.
///
/// A second moment moves by a share of 1 - beta2 of the squared gradient. bf16's last place is 2^-8 of
/// a number or more, so with beta2 = 0.999 a moment that should shrink by a thousandth does not move
/// at all when rounded to nearest. With 0.95, and with the first moment's 0.9, it does.

#include <cstddef>
#include <memory>

#include "common/optim/state_store.hpp"

namespace ultra::mixed_precision {

/// @brief Moments that are rounded to bf16 after each step, to nearest.
[[nodiscard]] std::unique_ptr<optim::StateStore> bf16_moments();

/// @brief Bytes of both moments of a tensor: 4 n.
[[nodiscard]] constexpr std::size_t bf16_moment_bytes(std::size_t elements) { return 4 * elements; }

}  // namespace ultra::mixed_precision
