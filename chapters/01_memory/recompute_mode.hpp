#pragma once
/// @file
/// Which activations a training step keeps, and which it computes again.

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::memory {

/// @brief What the forward pass of a block keeps for its backward pass.
///
/// Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174
/// (full); Korthikanti et al. 2022, arXiv 2205.05198, sec. 5 (selective).
enum class Recompute {
  kNone,       ///< everything that backward needs
  kSelective,  ///< what is expensive to compute; the rest is computed again, block by block
  kFull        ///< the input of each group of blocks; the whole group runs forward again
};

/// @brief "none", "selective" or "full".
[[nodiscard]] constexpr std::string_view to_string(Recompute mode) {
  switch (mode) {
    case Recompute::kNone:
      return "none";
    case Recompute::kSelective:
      return "selective";
    case Recompute::kFull:
      return "full";
  }
  return "?";
}

/// @brief Parses "none", "selective" or "full".
/// @throws ConfigError for any other text.
[[nodiscard]] inline Recompute parse_recompute(const std::string& text) {
  for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    if (text == to_string(mode)) return mode;
  }
  throw ConfigError(
      fmt::format("--recompute {} is unknown. Use none, selective or full.", in_quotes(text)));
}

/// @brief The mode and, for full recomputation, the size of the groups.
struct RecomputeConfig {
  Recompute mode = Recompute::kNone;  ///< what is kept
  std::size_t recompute_every = 1;    ///< K, blocks per group of kFull; the last may be smaller

  /// @brief Checks that the group size is usable.
  /// @throws ConfigError when K is 0, or is set in a mode that has no groups.
  void validate() const {
    if (recompute_every == 0) {
      throw ConfigError("--recompute-every is 0. It must be at least 1.");
    }
    if (recompute_every != 1 && mode != Recompute::kFull) {
      throw ConfigError(fmt::format(
          "--recompute-every {} needs --recompute full; found --recompute {}, which has no groups.",
          recompute_every, to_string(mode)));
    }
  }

  bool operator==(const RecomputeConfig&) const = default;
};

}  // namespace ultra::memory
