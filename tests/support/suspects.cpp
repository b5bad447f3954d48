#include "tests/support/suspects.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ultra::test {

bool close(double a, double b, double relative) {
  return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b));
}

std::string diagnosis(double found, double expected, const std::vector<Suspect>& suspects,
                      double relative) {
  for (const auto& [value, hint] : suspects) {
    if (!close(value, expected, relative) && close(found, value, relative)) {
      return fmt::format("Hint: {}", hint);
    }
  }
  return "";
}

}  // namespace ultra::test
