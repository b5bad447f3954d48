#pragma once
/// @file
/// The compressions by name, as `--compress` takes them, what they send, and the buckets that they need.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/03_data_parallel/bucket_assignment.hpp"
#include "chapters/03_data_parallel/bucket_exchange.hpp"
#include "chapters/03_data_parallel/compression/compressor.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/parameter.hpp"

namespace ultra::data_parallel {

/// @brief What becomes of gradients before they travel.
enum class CompressionKind {
  kNone,      ///< all_reduce_exchange()
  kTopK,      ///< top_k_compressor()
  kInt8,      ///< int8_compressor()
  kOneBit,    ///< one_bit_compressor()
  kPowerSgd,  ///< power_sgd_exchange()
};

/// @brief A compression with its parameter.
struct Compression {
  CompressionKind kind = CompressionKind::kNone;  ///< which
  double fraction = 0;                            ///< of kTopK, in (0, 1]; else 0
  std::size_t rank = 0;                           ///< of kPowerSgd, at least 1; else 0

  bool operator==(const Compression&) const = default;

  /// @brief "none", "topk:0.01", "int8", "onebit" or "powersgd:2": parse_compression() reads it back.
  [[nodiscard]] std::string name() const;

  /// @brief Bytes that each of N replicas sends for a bucket of S bytes.
  ///
  /// Compressed into messages of W bytes: (N-1) W. In an all-reduce: 2 (N-1)/N S, averaged over the
  /// replicas, which makes it exact for counts that N does not divide. PowerSGD's two all-reduces are of
  /// R (n + m) elements per matrix with factors, and of the rest.
  [[nodiscard]] double sent_bytes(int replicas, const BucketContents& contents, DType dtype) const;
};

/// @brief Reads none, topk:F, int8, onebit or powersgd:R.
/// @throws ConfigError that says what was found and what is expected.
[[nodiscard]] Compression parse_compression(std::string_view text);

/// @brief The exchange of a compression.
/// @param feedback  without meaning for CompressionKind::kNone.
/// @throws ConfigError for a parameter that is out of range.
[[nodiscard]] MakeBucketExchange make_exchange(const Compression& compression,
                                               const Communicator& dp, ErrorFeedback feedback);

/// @brief Puts parameters into buckets as assign_buckets(), but only such together whose gradients are
/// equal on the same other ranks, as those of the norms are in tensor parallelism.
///
/// What a compression makes of a number depends on all numbers of its bucket: their mean, their
/// largest. In a bucket with shards, which differ from rank to rank, equal gradients would not stay
/// equal, and the copies of a weight would drift apart.
/// @param parameters  in forward order.
/// @param capacity    elements of a bucket; with 0 each parameter has one of its own.
/// @return buckets in the order in which the backward pass fills them.
[[nodiscard]] std::vector<Bucket> buckets_of_equal_copies(
    const std::vector<nn::Parameter*>& parameters, std::size_t capacity);

}  // namespace ultra::data_parallel
