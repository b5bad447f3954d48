#pragma once
/// @file
/// `10_mixed_precision --estimate MODEL --precision bf16`: the bytes of a recipe, rank by rank of
/// each stage of ZeRO.

#include <string>

#include "common/train/program/technique.hpp"

namespace ultra::mixed_precision {

/// @brief The answer to an estimate of a model that is trained in the recipe of setup.train, for
/// stdout: a table, or JSON with --json.
/// @param recipe  its flags' words.
/// @param ranks   that share the states.
/// @throws ConfigError for an unknown model, for one that cannot be, and for layouts that it does not
/// know.
[[nodiscard]] std::string estimate_recipe(const train::Setup& setup, const std::string& recipe,
                                          int ranks);

}  // namespace ultra::mixed_precision
