#pragma once
/// @file
/// What adding up gradients sends, by closed form: with and without compression.
///
/// Legend: N replicas, S bytes of gradients, W bytes of a compressed message.

#include <cstddef>
#include <span>

#include "chapters/03_data_parallel/compression/power_sgd.hpp"
#include "common/tensor/dtype.hpp"
#include "common/tensor/shape.hpp"

namespace ultra::data_parallel {

/// @brief Bytes that a replica sends in an all-reduce of `count` elements: 2 (N-1)/N S.
///
/// Averaged over the replicas, which makes it exact for counts that N does not divide.
[[nodiscard]] double all_reduce_sent_bytes(int replicas, std::size_t count, DType dtype);

/// @brief Bytes that a replica sends in a compressed_exchange(): (N-1) W.
/// @param message_words  of i32: Compressor::message_words().
[[nodiscard]] std::size_t compressed_sent_bytes(int replicas, std::size_t message_words);

/// @brief Bytes that a replica sends in a power_sgd_exchange(), averaged over the replicas:
/// 2 (N-1)/N times the bytes of R (n + m) elements per matrix with factors and of the rest.
[[nodiscard]] double power_sgd_sent_bytes(int replicas, std::span<const Shape> shapes,
                                          std::size_t rank, DType dtype);

}  // namespace ultra::data_parallel
