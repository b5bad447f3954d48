#pragma once
/// @file
/// The rules that --optimizer can name.

#include <string>
#include <string_view>
#include <vector>

#include "common/optim/update_rule.hpp"

namespace ultra::optim {

/// The rule without the flag.
inline constexpr std::string_view kDefaultRule = "adamw";

/// @brief Their names.
[[nodiscard]] std::vector<std::string> rule_names();

/// @brief A rule by its name, with its own constants.
/// @throws InternalError for a name that rule_names() does not have.
[[nodiscard]] Rule make_rule(std::string_view name);

/// @brief States per weight of a rule, of weights of a kind.
[[nodiscard]] std::size_t states_per_weight(std::string_view name, WeightKind kind);

/// @brief Whether a rule changes matrices as wholes.
[[nodiscard]] bool needs_whole_matrices(std::string_view name);

}  // namespace ultra::optim
