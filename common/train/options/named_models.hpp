#pragma once
/// @file
/// Models that have names: a name stands for the flags that describe the model.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/nn/named_models.hpp"

namespace ultra::train {

/// @brief A published model.
struct NamedModel {
  std::string name;                                        ///< "llama-8b"
  std::vector<std::pair<std::string, std::string>> flags;  ///< "--layers" and "32"; a switch has ""
};

/// @brief The flags that describe a model of our own architecture.
[[nodiscard]] NamedModel in_flags(const nn::NamedModel& named);

/// @brief A command line, and after it the flags that its `--model NAME` stands for, except for
/// those that it gives itself. Without --model it stays as it is.
/// @throws ConfigError for a name that no model has, with all there are.
[[nodiscard]] std::vector<std::string> with_model_flags(std::vector<std::string> words,
                                                        const std::vector<NamedModel>& models);

}  // namespace ultra::train
