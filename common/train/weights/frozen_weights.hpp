#pragma once
/// @file
/// Weights that a training leaves as they are: what --freeze says.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/nn/model.hpp"

namespace ultra::train {

/// @brief Whether a parameter of that name is frozen: one of the patterns is a part of it.
[[nodiscard]] bool is_frozen_by(std::span<const std::string> patterns, std::string_view name);

/// @brief Checks that patterns freeze something, and not everything.
/// @param patterns  parts of names.
/// @param whole     nn::named_shapes() of the whole model, so that all ranks find the same.
/// @throws ConfigError with the pattern and names that there are.
void expect_to_train(std::span<const std::string> patterns, std::span<const nn::NamedShape> whole);

/// @brief Freezes the parameters of a model that have one of the patterns in their names, except
/// for those that no gradient changes anyway (nn::kLocalGroup).
void freeze(nn::Model& model, std::span<const std::string> patterns);

/// @brief Those of the parameters that are not frozen, in their order.
[[nodiscard]] std::vector<nn::Parameter*> trained(const std::vector<nn::Parameter*>& parameters);

/// @brief Those that are frozen, in their order.
[[nodiscard]] std::vector<nn::Parameter*> frozen(const std::vector<nn::Parameter*>& parameters);

/// @brief All of them, those that are frozen after the others.
[[nodiscard]] std::vector<nn::Parameter*> frozen_last(std::vector<nn::Parameter*> parameters);

}  // namespace ultra::train
