#pragma once
/// @file
/// Which kernels compute an operation: the one table of it.
///
/// | operation          | where                                                 | kernels             |
/// |--------------------|-------------------------------------------------------|---------------------|
/// | matmul             | on Hopper, unless --matmul vendor: one of Fp8Products | matmul_fp8, rung 3  |
/// |                    | that fits matmul_turned                               |                     |
/// |                    | a GPU, unless --matmul ours                           | cuBLASLt            |
/// |                    | f32, at least kLeastTile x kLeastTile                 | matmul_fp32, rung 9 |
/// |                    | bf16 to bf16, the same, depth a multiple of 8, both   | matmul_bf16, rung 6 |
/// |                    | factors along the depth; on Hopper, columns a         |                     |
/// |                    | multiple of 8                                         | matmul_bf16, rung 12|
/// |                    | bf16 to bf16 or f32, lengths of rows multiples of 8,  | matmul_turned, 1    |
/// |                    | factors along depth or rows; on Hopper                | matmul_turned, 2    |
/// | attention          | f32, heads of 4 n <= 128 elements, as many queries as | attention, rung 6;  |
/// |                    | keys at the same positions, no documents              | its backward, rung 2|
/// |                    | bf16 or f16 to the same or f32, heads of 8 n elements | attention_bf16, 3;  |
/// |                    |                                                       | its backward, rung 1|
/// |                    | on Hopper                                             | attention_bf16, 5   |
/// |                    | and to the same                                       | attention_bf16, 6;  |
/// |                    |                                                       | its backward, rung 2|
/// |                    | bf16, packed documents of kLeastSequence tokens in    | attention_varlen, 3;|
/// |                    | the mean                                              | its backward, rung 1|
/// | rms_norm           | f32 or bf16, rows of at most 16384 elements, at a     | rms_norm, rung 4;   |
/// |                    | multiple of 16 bytes                                  | rms_norm_bf16, 2    |
/// | rms_norm_backward  | likewise, rows of at most 8192 elements               | its rung 3          |
/// | swiglu             | f32 or bf16, at a multiple of 16 bytes                | its top rung        |
/// | swiglu_backward    | likewise                                              | its rung 3          |
/// | all else, and all  | every shape, stride, position and element type        | kernels/generic     |
/// | of --sums tree     |                                                       |                     |
///
/// Small problems stay with the generic kernels, which start sooner. AdamW's takes many tensors in a launch: a
/// rank that updates a part of a tensor, wherever that begins, gets the same bits as one that updates all of it.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "common/ops/attention.hpp"
#include "common/ops/fp8/fp8_products.hpp"
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
  bool is_old = false;               ///< a compute capability below 8.0: no tiles of ladders
};

/// @brief What the device of a tensor has.
[[nodiscard]] Hardware hardware_of(const Device& device);

/// @brief How a matrix product is computed.
enum class MatmulWay { kPlain, kVendor, kLadderF32, kLadderBf16, kTurnedBf16, kHopperFp8 };

/// @brief out = a b, or += a b, where factors may be transposed.
struct Product {
  const Tensor& out;                ///< [rows, columns]
  const Tensor& a;                  ///< left factor
  Transpose transpose_a;            ///< of the left factor
  const Tensor& b;                  ///< right factor
  Transpose transpose_b;            ///< of the right factor
  Write write;                      ///< whether the result is added to
  std::optional<Fp8Factors> fp8{};  ///< of its factors, if it is one of Fp8Products

  /// @brief Terms of each sum.
  [[nodiscard]] std::size_t depth() const {
    return transpose_a == Transpose::kNo ? a.size(1) : a.size(0);
  }
  /// @brief Whether a's rows run along the depth.
  [[nodiscard]] bool a_along_depth() const { return transpose_a == Transpose::kNo; }
  /// @brief Whether b's do.
  [[nodiscard]] bool b_along_depth() const { return transpose_b == Transpose::kYes; }
};

/// @brief The way of a product, with the library that the device of its result was made for.
/// @throws ConfigError when that library is the vendor's, asked for by name, and it is missing.
[[nodiscard]] MatmulWay choose_matmul(const Hardware& hardware, const Product& of);

/// @brief Whether a product of bf16 has a kernel of Hopper's own.
[[nodiscard]] bool has_hopper_kernel(const Hardware& hardware, const Product& of);

/// @brief How attention and its gradients are computed.
enum class AttentionWay { kPlain, kLadderF32, kLadderHalf, kHopperHalf, kDocumentsBf16 };

/// @brief The way of an attention whose results are of `result`.
[[nodiscard]] AttentionWay choose_attention(const Hardware& hardware, const Tensor& query,
                                            const Tensor& key, DType result,
                                            const AttentionOptions& options);

/// @brief The documents of all sequences one after another, as kernels take them (cu_seqlens).
/// @param options  with all positions given.
/// @return [documents + 1] where each begins, and how many tokens there are; empty where a query sees
///         anything but the keys of its own document up to its own.
[[nodiscard]] std::vector<std::int32_t> begins_of_documents(const AttentionOptions& options);

/// @brief Whether the ladders' kernels for rms_norm fit: f32 or bf16, enough rows, and none too long.
[[nodiscard]] bool ladder_fits_rms_norm(const Tensor& y, const Tensor& x, const Tensor& weight);

/// @brief Whether those for its gradients do.
[[nodiscard]] bool ladder_fits_rms_norm_backward(const Tensor& d_x, const Tensor& d_y,
                                                 const Tensor& x, const Tensor& weight);

/// @brief Whether the top rungs of elementwise ladders fit: all tensors contiguous, of one type, at a
/// multiple of 16 bytes, and few enough elements for an int.
[[nodiscard]] bool ladder_fits_elements(std::initializer_list<Tensor> tensors);

}  // namespace ultra::ops::gpu
