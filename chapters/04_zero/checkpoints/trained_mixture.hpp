#pragma once
/// @file
/// The mixture of experts of a training, as its checkpoints tell other programs of it.

#include <map>
#include <optional>
#include <string>

#include "common/checkpoint/models/config_json.hpp"

namespace ultra::zero {

/// @brief The mixture that a training's flags make; none without --experts.
/// @param flags  TrainingIdentity::flags, of a run or of a training.json.
/// @throws FileError when one of its numbers cannot be read: somebody has changed the file.
[[nodiscard]] std::optional<checkpoint::MixtureConfig> mixture_of(
    const std::map<std::string, std::string>& flags);

}  // namespace ultra::zero
