#pragma once
/// @file
/// The compressions by name, as `--compress` takes them.

#include <cstddef>
#include <string>
#include <string_view>

#include "chapters/03_data_parallel/bucket_exchange.hpp"
#include "chapters/03_data_parallel/compression/compressor.hpp"
#include "common/comm/communicator.hpp"

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

  /// @brief Bytes that a replica sends for a bucket, averaged over the replicas.
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

}  // namespace ultra::data_parallel
