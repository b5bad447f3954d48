#pragma once
/// @file
/// The functions of scaled_grid.hpp where the host does not see the numbers: the same bits, and nobody
/// waits.

#include "chapters/10_mixed_precision/fp8/scaled_grid.hpp"

/// @brief Functions of scaled_grid.hpp for devices with streams.
namespace ultra::mixed_precision::on_device {

/// @brief See mixed_precision::amax_of.
[[nodiscard]] Tensor amax_of(const Tensor& x, const GridPart& part);

/// @brief See mixed_precision::scales_from_amax.
void scales_from_amax(const Tensor& amax, Fp8 format, int margin);

/// @brief delayed_scale() after note_amax(): part of the answer to exercise 10.7.
/// @param amax     [1] the tensor's own, replaced by the scale.
/// @param history  [1 + H].
/// @param notes    whether its own largest magnitude is noted.
void delayed_scale(const Tensor& amax, const Tensor& history, Fp8 format, int margin, bool notes);

/// @brief See mixed_precision::on_grid.
[[nodiscard]] Tensor on_grid(const Tensor& x, const GridPart& part, const Tensor& scales,
                             Fp8 format);

/// @brief See mixed_precision::pack_codes.
[[nodiscard]] Tensor pack_codes(const Tensor& x, const GridPart& part, const Tensor& scales,
                                Fp8 format);

/// @brief See mixed_precision::unpack_codes.
[[nodiscard]] Tensor unpack_codes(const Tensor& codes, const GridPart& part, const Tensor& scales,
                                  Fp8 format, DType dtype);

}  // namespace ultra::mixed_precision::on_device
