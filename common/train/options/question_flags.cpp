#include "common/train/options/question_flags.hpp"

namespace ultra::train {

void expect_between(std::string_view flag, std::size_t value, std::size_t least, std::size_t most) {
  if (value < least || value > most) {
    throw ConfigError(fmt::format("{} is {}. It must be from {} to {}.", flag, value, least, most));
  }
}

}  // namespace ultra::train
