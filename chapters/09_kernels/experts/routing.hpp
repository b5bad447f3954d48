#pragma once
/// @file
/// What a router might decide, for the ladders of experts.

#include <cstdint>
#include <vector>

namespace ultra::ladders {

/// @brief How many decisions there are.
struct RoutingShape {
  /// @brief Tokens.
  int tokens;
  /// @brief Experts of each token.
  int top_k;
  /// @brief Experts that there are; at least top_k.
  int experts;
};

/// @brief [tokens, top_k] experts, those of a token different from each other. Unevenly: half of
/// all decisions fall on the first quarter of the experts, as before a router has learnt to
/// balance.
[[nodiscard]] std::vector<int> draw_experts(const RoutingShape& shape, std::uint64_t seed);

/// @brief [experts + 1], where each expert's tokens begin when they lie in the order of their
/// experts.
[[nodiscard]] std::vector<int> begins_of(const std::vector<int>& experts_of_tokens, int experts);

}  // namespace ultra::ladders
