#include "common/base/text.hpp"

#include <fmt/format.h>

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

/// What does not print, as an escape.
std::string escaped(std::string_view text) {
  const std::string in_double_quotes = fmt::format("{:?}", text);
  return in_double_quotes.substr(1, in_double_quotes.size() - 2);
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
