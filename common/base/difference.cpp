#include "common/base/difference.hpp"

#include <fmt/format.h>

namespace ultra {

std::string format_difference(std::size_t measured, std::size_t predicted, int decimals) {
  if (measured == predicted) return "exact";
  const double from = static_cast<double>(predicted);
  return fmt::format("{:+.{}f}%", 100.0 * (static_cast<double>(measured) - from) / from, decimals);
}

}  // namespace ultra
