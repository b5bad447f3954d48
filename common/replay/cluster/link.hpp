#pragma once
/// @file
/// Link: what joins two GPUs.

/// @brief What a recorded step takes on a cluster that is not here.
namespace ultra::replay {

/// @brief A link in one direction; the other direction has as much (full duplex).
struct Link {
  double latency = 0.0;    ///< alpha, seconds
  double bandwidth = 0.0;  ///< bytes per second

  /// @brief beta, seconds per byte.
  [[nodiscard]] double beta() const { return 1.0 / bandwidth; }
  bool operator==(const Link&) const = default;
};

}  // namespace ultra::replay
