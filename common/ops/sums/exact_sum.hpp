#pragma once
/// @file
/// ExactSum: a sum of f64 numbers without rounding, whatever their order and whoever adds them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/ops/matmul.hpp"
#include "common/tensor/device.hpp"
#include "kernels/generic/elements/exact_digits.hpp"

namespace ultra::ops {

/// @brief A sum without rounding (kernels::generic::ExactDigits); NaN of a term that is not finite, or of
/// 2^288 or more.
///
/// Sums of its digits are sums of numbers: an all-reduce of digits is exact in whatever order, for digits
/// that are carried stay exact in f64 for 2^20 ranks.
/// Source: Kulisch and Miranker's accumulator, as Omtzigt describes it ("The Kulisch super-accumulator",
/// stillwater-sc.github.io/universal); Demmel and Nguyen 2014, "Parallel reproducible summation",
/// doi 10.1109/TC.2014.2345391, have sums in any order for fewer operations and bits.
class ExactSum {
 public:
  static constexpr std::size_t kDigits = kernels::generic::ExactDigits::kCount;  ///< of a sum

  ExactSum() = default;
  /// @brief The sum that digits stand for. @param digits  [kDigits] whole numbers.
  explicit ExactSum(std::span<const double> digits);

  /// @brief Adds a number.
  void add(double term);

  /// @brief Writes the digits, or adds them to others, which must not be added to more than 2^20 times.
  /// @param digits  [kDigits].
  void put(std::span<double> digits, Write write);

  /// @brief The nearest f64, or a neighbour of it; always the same for the same sum.
  [[nodiscard]] double value();

 private:
  void carry();

  std::array<std::int64_t, kDigits> digits_{};
  std::size_t added_ = 0;  // since the last carry
};

/// @brief How many f64 numbers a sum takes that a device's operations add to: ExactSum::kDigits where all
/// sums follow trees, else 1.
[[nodiscard]] std::size_t digits_of_sums(const Device& device);

/// @brief Whether sums over long axes follow trees there: what adds up tokens itself leaves that to the
/// operations then.
[[nodiscard]] inline bool sums_by_trees(const Device& device) { return digits_of_sums(device) > 1; }

/// @brief Numbers of `digits` each as one f64 each.
[[nodiscard]] std::vector<double> rounded_sums(std::span<const double> sums, std::size_t digits);

}  // namespace ultra::ops
