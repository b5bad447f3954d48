#pragma once
/// @file
/// Taking text apart: the pieces of a list, and numbers; quoting it; and hashing it.

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ultra {

/// @brief The pieces between the separators, empty ones too: "a,,b" -> "a", "", "b"; "" -> "".
/// @return views into `text`.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

/// @brief The types that parse_number reads.
template <class T>
concept ParsedNumber =
    std::same_as<T, int> || std::same_as<T, std::uint64_t> || std::same_as<T, double>;

/// @brief The number that all of `text` is, in decimal: no spaces, no leading "+".
/// @return nothing for any other text and for what T cannot hold. A double may be infinite or NaN.
template <ParsedNumber T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text);

/// @brief A text as messages quote it, between single quotes: at most 60 of its bytes and how many
/// it has; what cannot be printed becomes an escape.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// @brief A number that stands for a text: the same on every machine, unlike std::hash.
/// Source: RFC 9923, FNV-1a of 64 bits.
[[nodiscard]] std::uint64_t stable_hash(std::string_view text);

}  // namespace ultra
