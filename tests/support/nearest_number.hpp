#pragma once
// The nearest number of a format, by search in a table of all of them: what conversions are compared
// with. The table is made of the format's definition, in f64, by nothing that it tests.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ultra::test {

/// @brief A small format, for its table.
struct SmallFormat {
  int exponent_bits;  ///< of the stored exponent
  int fraction_bits;  ///< behind the point
  bool infinity;      ///< whether the largest exponent is kept for infinity and NaN
  bool nan_all_ones;  ///< whether, without infinity, the code of all ones is NaN
};

inline constexpr SmallFormat kBf16Table{8, 7, true, true};
inline constexpr SmallFormat kFp16Table{5, 10, true, true};
inline constexpr SmallFormat kE4m3Table{4, 3, false, true};
inline constexpr SmallFormat kE5m2Table{5, 2, true, true};

/// @brief All magnitudes of a format, by their codes: 0 upwards to the largest finite number.
inline std::vector<double> magnitudes_of(const SmallFormat& format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponents = (1 << format.exponent_bits) - (format.infinity ? 1 : 0);
  const int fractions = 1 << format.fraction_bits;
  std::vector<double> magnitudes;
  for (int exponent = 0; exponent < exponents; ++exponent) {
    for (int fraction = 0; fraction < fractions; ++fraction) {
      const int whole = exponent == 0 ? fraction : fractions + fraction;
      magnitudes.push_back(std::ldexp(whole, std::max(exponent, 1) - bias - format.fraction_bits));
    }
  }
  if (!format.infinity && format.nan_all_ones) magnitudes.pop_back();
  return magnitudes;
}

/// @brief Code of the number nearest to |x|, ties to the even code; one more than the last code for
/// what is nearer to the number that would follow, as far as that.
/// @param magnitudes  as magnitudes_of() makes them.
inline std::size_t nearest_code(const std::vector<double>& magnitudes, double x) {
  const double magnitude = std::abs(x);
  const std::size_t last = magnitudes.size() - 1;
  const double next = 2 * magnitudes[last] - magnitudes[last - 1];
  if (magnitude >= next) return last + 1;
  const auto above = std::ranges::upper_bound(magnitudes, magnitude);
  const auto low = static_cast<std::size_t>(above - magnitudes.begin()) - 1;
  const double high = low == last ? next : *above;
  const double down = magnitude - magnitudes[low];
  const double up = high - magnitude;
  if (down == up) return low + low % 2;
  return down < up ? low : low + 1;
}

/// @brief Where roundings are decided: each magnitude, each middle, and the f32 numbers beside them.
inline std::vector<float> decisive_numbers(const std::vector<double>& magnitudes) {
  std::vector<float> numbers;
  const auto add = [&numbers](double x) {
    const auto number = static_cast<float>(x);
    for (const float near :
         {number, std::nextafter(number, 0.0F), std::nextafter(number, 2 * number)}) {
      if (std::isfinite(near)) numbers.insert(numbers.end(), {near, -near});
    }
  };
  for (std::size_t i = 0; i + 1 < magnitudes.size(); ++i) {
    add(magnitudes[i]);
    add((magnitudes[i] + magnitudes[i + 1]) / 2);
  }
  const double last = magnitudes.back();
  const double step = last - magnitudes[magnitudes.size() - 2];
  for (const double beyond : {last, last + step / 2, last + step, 2 * last, 1e30}) add(beyond);
  return numbers;
}

}  // namespace ultra::test
