#pragma once
/// @file
/// Rows: how a C++ cell hands numbers to the Python cell after it.
///
/// A row is one JSON object. The rows of a cell become the columns of one pandas table, by rank
/// and then in the order in which they were emitted.

#include <charconv>
#include <cmath>
#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace ultra::notebook {

/// @brief A number, truth value or text of a row, already written as JSON.
///
/// Floating-point values are written exactly, as doubles; NaN and infinities are written as
/// Python's json module reads them.
class Value {
 public:
  Value(bool value) : json_(value ? "true" : "false") {}

  template <std::integral Integer>
  Value(Integer value) : json_(std::to_string(value)) {}

  template <std::floating_point Real>
  Value(Real value) : json_(number(static_cast<double>(value))) {}

  Value(std::string_view text) : json_(quoted(text)) {}
  Value(const std::string& text) : Value(std::string_view(text)) {}
  Value(const char* text) : Value(std::string_view(text)) {}

  [[nodiscard]] const std::string& json() const { return json_; }

  /// @brief Writes `text` as a JSON string, with its quotes.
  [[nodiscard]] static std::string quoted(std::string_view text) {
    std::string json = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        json += '\\';
        json += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        constexpr std::string_view kHex = "0123456789abcdef";
        const auto code = static_cast<unsigned char>(c);
        json += "\\u00";
        json += kHex[code >> 4U];
        json += kHex[code & 15U];
      } else {
        json += c;
      }
    }
    return json + '"';
  }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    char digits[32];
    std::string text(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
    const bool looks_integral = text.find_first_of(".e") == std::string::npos;
    return looks_integral ? text + ".0" : text;
  }

  std::string json_;
};

/// @brief One column of a row: its name and its value.
using Field = std::pair<std::string_view, Value>;

/// @brief Emits one row: `emit({{"step", step}, {"loss", loss}});`
///
/// With more than one rank, each row also gets a column `rank`, unless it has one.
void emit(std::initializer_list<Field> fields);

}  // namespace ultra::notebook
