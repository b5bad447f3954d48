#pragma once
/// @file
/// Numbers as people read them: bytes, counts and durations.

#include <cstdint>
#include <string>

namespace ultra {

inline constexpr double kGB = 1e9;                        ///< bytes of a gigabyte
inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;  ///< bytes of a gibibyte
inline constexpr double kPercent = 100;                   ///< a share times this is its percentage

/// @brief Bytes in decimal units with three significant digits: 1234567 -> "1.23 MB" (1 MB = 1e6 B).
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

/// @brief A count with thousands separators: 1234567 -> "1,234,567".
[[nodiscard]] std::string format_count(std::uint64_t count);

/// @brief Seconds as "0.42 s", "12 s" or "3 min 07 s".
[[nodiscard]] std::string format_seconds(double seconds);

/// @brief Parses "64MB", "1.5 GiB", "4096" (bytes) and the like.
/// @throws ConfigError when the text is not a size.
[[nodiscard]] std::uint64_t parse_bytes(const std::string& text);

}  // namespace ultra
