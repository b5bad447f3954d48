#include "common/base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <system_error>

namespace ultra {
namespace {

constexpr std::size_t kMostQuoted = 60;

/// The beginning of a text, without half a character of UTF-8 at its end.
std::string_view beginning(std::string_view text, std::size_t length) {
  constexpr unsigned kContinues = 0x80;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == kContinues) --length;
  return text.substr(0, length);
}

/// Bytes of the character of UTF-8 that a text begins with; 0 when it begins with none.
std::size_t length_of_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const auto ones = static_cast<std::size_t>(std::countl_one(first));
  if (ones == 0) return 1;
  if (ones == 1 || ones > 4 || ones > text.size()) return 0;
  const auto continues = [](unsigned char byte) { return (byte & 0xC0U) == 0x80U; };
  return std::ranges::all_of(text.substr(1, ones - 1), continues) ? ones : 0;
}

/// What does not print, as an escape.
std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = length_of_character(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (first == '\n') {
      result += "\\n";
    } else if (first == '\t') {
      result += "\\t";
    } else if (length == 0 || first < 0x20U || first == 0x7FU) {
      result += fmt::format("\\x{:02x}", first);
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <ParsedNumber T>
std::optional<T> parse_number(std::string_view text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || last != end) return std::nullopt;
  return number;
}

template std::optional<int> parse_number(std::string_view);
template std::optional<std::uint64_t> parse_number(std::string_view);
template std::optional<double> parse_number(std::string_view);

std::string in_quotes(std::string_view text) {
  if (text.size() <= kMostQuoted) return fmt::format("'{}'", escaped(text));
  return fmt::format("'{}...' ({} bytes)", escaped(beginning(text, kMostQuoted)), text.size());
}

std::uint64_t stable_hash(std::string_view text) {
  constexpr std::uint64_t kOffsetBasis = 14695981039346656037ULL;
  constexpr std::uint64_t kPrime = 1099511628211ULL;
  std::uint64_t hash = kOffsetBasis;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  return hash;
}

}  // namespace ultra
