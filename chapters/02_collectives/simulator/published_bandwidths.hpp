#pragma once
/// @file
/// Bandwidths that others have measured, to stand beside the model's.

#include <span>
#include <string_view>

#include "common/base/json.hpp"
#include "common/comm/engine/operation.hpp"

namespace ultra::collectives {

/// @brief One published figure.
struct PublishedBandwidth {
  std::string_view machine;  ///< of what
  std::string_view what;     ///< which figure: "bus bandwidth", "line rate", "median", ...
  OpKind op;                 ///< of which operation; kSend for a line rate
  int nodes;                 ///< that took part
  int gpus_per_node;         ///< of each
  double gb_per_second;      ///< 10^9 bytes per second
  std::string_view source;   ///< who says so
};

/// @brief All figures of this chapter.
[[nodiscard]] std::span<const PublishedBandwidth> published_bandwidths();

/// @brief The same as a JSON array of objects with the members' names.
[[nodiscard]] Json published_to_json();

}  // namespace ultra::collectives
