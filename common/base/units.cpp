#include "common/base/units.hpp"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra {

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string format_count(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string format_seconds(double seconds) {
  if (seconds < 9.995) return fmt::format("{:.2f} s", seconds);
  if (seconds < 59.5) return fmt::format("{:.0f} s", seconds);
  constexpr double kLongest = 1e15;  // some 30 million years
  if (seconds >= kLongest) return fmt::format("{:.0e} s", seconds);
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  return fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

std::uint64_t parse_bytes(const std::string& text) {
  static constexpr std::array<std::pair<std::string_view, double>, 10> kUnits = {
      {{"", 1.0},
       {"B", 1.0},
       {"KB", 1e3},
       {"MB", 1e6},
       {"GB", 1e9},
       {"TB", 1e12},
       {"KIB", 1024.0},
       {"MIB", 1048576.0},
       {"GIB", 1073741824.0},
       {"TIB", 1099511627776.0}}};
  double value = -1.0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  std::string unit;
  for (const char c : std::string_view(rest, end)) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      unit += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
  }
  constexpr double kTooLarge = 0x1.0p63;  // llround's range ends there
  if (error == std::errc() && value >= 0.0) {
    for (const auto& [name, factor] : kUnits) {
      if (unit == name && value * factor < kTooLarge) {
        return static_cast<std::uint64_t>(std::llround(value * factor));
      }
    }
  }
  throw ConfigError(fmt::format(
      "{} is not a size in bytes. Write for example 64MB, 1.5GiB or 4096.", in_quotes(text)));
}

}  // namespace ultra
