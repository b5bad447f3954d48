#pragma once
/// @file
/// Numbers in blocks, and how far from them what comes back may be.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "chapters/04_zero/zero_plus_plus/block_quantization.hpp"

namespace ultra::zero::test {

using Values = std::vector<double>;

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr QuantizedBits kAllBits[] = {QuantizedBits::kFour, QuantizedBits::kEight};

/// Numbers and how they are quantised.
struct Case {
  BlockFormat format;
  DType dtype = DType::kF32;

  [[nodiscard]] std::string str(std::size_t count) const {
    return fmt::format("{} numbers of {} in blocks of {}, {} bits", count, to_string(dtype),
                       format.block, static_cast<int>(format.bits));
  }
  /// Half the distance of two numbers of this type around 1.
  [[nodiscard]] double rounding() const {
    return (dtype == DType::kF32 ? double{std::numeric_limits<float>::epsilon()}
                                 : std::numeric_limits<double>::epsilon()) /
           2;
  }
};

/// Every number of a block within half its scale.
///
/// With roundings of the type, u each: the quotient x/scale has one, the product another, and both
/// are at most q scale (1 + u): |x - x'| <= scale/2 + 2 q scale u, and the scale itself has one
/// rounding. That is scale/2 (1 + 4 q u + u); the bound is twice as far, for the roundings of this
/// function.
inline void expect_within_half_a_scale(const Case& c, const Values& values, const Values& found,
                                       const std::string& hint) {
  const double integers = c.format.bits == QuantizedBits::kFour ? 7 : 127;
  for (std::size_t begin = 0; begin < values.size(); begin += c.format.block) {
    const std::size_t end = std::min(begin + c.format.block, values.size());
    double largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(values[i]));
    const double bound = largest / integers / 2 * (1 + 8 * integers * c.rounding());
    for (std::size_t i = begin; i < end; ++i) {
      const double error = std::abs(found[i] - values[i]);
      EXPECT_LE(error, bound) << "element " << i << ": " << values[i] << " became " << found[i]
                              << "\n"
                              << hint;
      if (!(error <= bound)) return;
    }
  }
}

}  // namespace ultra::zero::test
