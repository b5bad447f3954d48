#include "chapters/10_mixed_precision/formats/format_table.hpp"

#include <fmt/format.h>

#include "chapters/10_mixed_precision/formats/number_format.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr const char* kRow = "{:<10}{:>5}{:>9}{:>6}{:>13}{:>13}{:>13}{:>13}{:>15}  {}\n";

std::string_view top_of(const NumberFormat& format) {
  switch (format.top) {
    case TopExponent::kInfinityAndNan:
      return "infinity and NaN";
    case TopExponent::kOneNan:
      return "NaN, no infinity";
    case TopExponent::kNumbers:
      return "neither";
  }
  return {};
}

std::string row_of(const NumberFormat& format) {
  return fmt::format(
      fmt::runtime(kRow), format.name, format.bits(),
      fmt::format("1/{}/{}", format.exponent_bits, format.fraction_bits), format.bias(),
      fmt::format("{:.6g}", format.largest()), fmt::format("{:.6g}", format.smallest_normal()),
      fmt::format("{:.6g}", format.smallest_subnormal()), fmt::format("{:.6g}", format.epsilon()),
      format.finite_numbers(), top_of(format));
}

}  // namespace

std::string format_table() {
  std::string table =
      fmt::format(fmt::runtime(kRow), "format", "bits", "s/e/f", "bias", "largest", "min normal",
                  "min above 0", "epsilon", "finite values", "beyond");
  for (const NumberFormat& format : kNumberFormats) table += row_of(format);
  return table +
         "epsilon: from 1 to the next number. The scale of an MX block of 32 is e8m0: one byte, a "
         "power of two from 2^-127 to 2^127, or NaN.\n";
}

}  // namespace ultra::mixed_precision
