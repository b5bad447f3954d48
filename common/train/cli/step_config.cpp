#include "common/train/cli/step_config.hpp"

#include <fmt/format.h>

namespace ultra::train {

ConfigError two_claims(std::string_view first, std::string_view second) {
  return ConfigError(fmt::format(
      "{} and {} do not go together: each wants to do the same part of a step. Leave one "
      "of the two out.",
      first, second));
}

}  // namespace ultra::train
