#pragma once
/// @file
/// Which kernels compute an operation: the one table of it.
///
/// | operation          | where                                                 | kernels             |
/// |--------------------|-------------------------------------------------------|---------------------|
/// | matmul             | a GPU, unless --matmul ours                           | cuBLASLt            |
/// |                    | f32, at least kLeastTile x kLeastTile                 | matmul_fp32, rung 9 |
/// |                    | bf16 to bf16, the same, depth a multiple of 8         | matmul_bf16, rung 6 |
/// |                    | on Hopper, columns a multiple of 8                    | matmul_bf16, rung 12|
/// | attention          | f32, heads of 4 n <= 128 elements, as many queries as | attention, rung 6;  |
/// |                    | keys at the same positions, no documents              | its backward, rung 2|
/// |                    | bf16 to bf16, heads of 8 n elements                   | attention_bf16, 3   |
/// |                    | on Hopper                                             | attention_bf16, 5   |
/// | rms_norm_backward  | f32, rows of at most 8192 elements                    | its rung 3          |
/// | swiglu             | f32 or bf16, at a multiple of 16 bytes                | its top rung        |
/// | swiglu_backward    | f32, likewise                                         | its rung 3          |
/// | all else           | every shape, stride, position and element type        | kernels/generic       |
///
/// Small problems stay with the generic kernels, which start sooner. So does AdamW: a rank that updates a
/// part of a tensor, wherever that begins, gets the same bits as one that updates all of it.

#include <cstddef>
#include <initializer_list>

#include "common/ops/attention.hpp"
#include "common/ops/matmul.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::ops::gpu {

/// Rows and columns of the smallest product that a tile of the ladders is worth.
inline constexpr std::size_t kLeastTile = 64;
/// Queries of the shortest sequence that the tiles of flash attention are worth.
inline constexpr std::size_t kLeastSequence = 64;

/// @brief What a device has beside the kernels that every device has.
struct Hardware {
  bool has_vendor_products = false;  ///< cuBLASLt
  bool is_hopper = false;            ///< instructions of compute capability 9.0
};

/// @brief What the device of a tensor has.
[[nodiscard]] Hardware hardware_of(const Device& device);

/// @brief How a matrix product is computed.
enum class MatmulWay { kPlain, kVendor, kLadderF32, kLadderBf16, kHopperBf16 };

/// @brief The way of a product, with the library that the device of `out` was made for.
/// @param depth  terms of each sum.
/// @throws ConfigError when that library is the vendor's, asked for by name, and it is missing.
[[nodiscard]] MatmulWay choose_matmul(const Hardware& hardware, const Tensor& out, const Tensor& a,
                                      std::size_t depth, Write write);

/// @brief How attention and its gradients are computed.
enum class AttentionWay { kPlain, kLadderF32, kLadderBf16, kHopperBf16 };

/// @brief The way of an attention whose results are of `result`.
[[nodiscard]] AttentionWay choose_attention(const Hardware& hardware, const Tensor& query,
                                            const Tensor& key, DType result,
                                            const AttentionOptions& options);

/// @brief Whether the ladder's kernel for the gradients of rms_norm fits.
[[nodiscard]] bool ladder_fits_rms_norm_backward(const Tensor& d_x, const Tensor& d_y,
                                                 const Tensor& x, const Tensor& weight);

/// @brief Whether the top rungs of elementwise ladders fit: all tensors contiguous, of one type, at a
/// multiple of 16 bytes, and few enough elements for an int.
[[nodiscard]] bool ladder_fits_elements(std::initializer_list<Tensor> tensors);

}  // namespace ultra::ops::gpu
