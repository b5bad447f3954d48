#include "common/ops/sums/exact_sum.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "common/base/errors.hpp"
#include "common/ops/backend/backend.hpp"

namespace ultra::ops {
namespace {

constexpr int kBits = 32;       // of a digit
constexpr int kFraction = 288;  // bits behind the point
constexpr std::size_t kNoPlace = ExactSum::kDigits - 1;
constexpr std::size_t kMostAdded = std::size_t{1} << 29;  // each adds less than 2^33 to a digit
constexpr std::uint64_t kMask = 0xffffffff;

}  // namespace

ExactSum::ExactSum(std::span<const double> digits) {
  ensure(digits.size() == kDigits, "an exact sum has all of its digits");
  for (std::size_t i = 0; i < kDigits; ++i) digits_[i] = static_cast<std::int64_t>(digits[i]);
}

void ExactSum::add(double term) {
  constexpr int kMantissa = std::numeric_limits<double>::digits - 1;  // without its first bit
  const auto bits = std::bit_cast<std::uint64_t>(term);
  const int exponent = static_cast<int>(bits >> kMantissa & 0x7ff);
  // Of the mantissa's last bit, counted from the lowest bit that has a place.
  int place = (exponent == 0 ? 1 : exponent) - 1023 - kMantissa + kFraction;
  if (place > 2 * kFraction - kMantissa - 1) {
    ++digits_[kNoPlace];
    return;
  }
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << kMantissa) - 1);
  if (exponent != 0) mantissa |= std::uint64_t{1} << kMantissa;
  if (place < 0) {
    mantissa = place <= -64 ? 0 : mantissa >> -place;
    place = 0;
  }
  const int shift = place % kBits;
  const std::uint64_t low = (mantissa & kMask) << shift;
  const std::uint64_t high = (mantissa >> kBits) << shift;
  const std::int64_t sign = bits >> 63 == 0 ? 1 : -1;
  std::int64_t* const digit = digits_.data() + place / kBits;
  digit[0] += sign * static_cast<std::int64_t>(low & kMask);
  digit[1] += sign * static_cast<std::int64_t>((low >> kBits) + (high & kMask));
  digit[2] += sign * static_cast<std::int64_t>(high >> kBits);
  if (++added_ == kMostAdded) carry();
}

void ExactSum::carry() {
  for (std::size_t i = 0; i + 1 < kNoPlace; ++i) {
    const std::int64_t up = digits_[i] >> kBits;  // towards minus infinity
    digits_[i] -= up * (std::int64_t{1} << kBits);
    digits_[i + 1] += up;
  }
  added_ = 0;
}

void ExactSum::put(std::span<double> digits, Write write) {
  ensure(digits.size() == kDigits, "an exact sum has all of its digits");
  carry();
  for (std::size_t i = 0; i < kDigits; ++i) {
    digits[i] = (write == Write::kOverwrite ? 0.0 : digits[i]) + static_cast<double>(digits_[i]);
  }
}

double ExactSum::value() {
  if (digits_[kNoPlace] != 0) return std::numeric_limits<double>::quiet_NaN();
  carry();
  const bool negative = digits_[kNoPlace - 1] < 0;
  ExactSum magnitude = *this;
  if (negative) {
    for (std::int64_t& digit : magnitude.digits_) digit = -digit;
    magnitude.carry();
  }
  double sum = 0;
  for (std::size_t i = kNoPlace; i-- > 0;) {
    sum += std::ldexp(static_cast<double>(magnitude.digits_[i]),
                      kBits * static_cast<int>(i) - kFraction);
  }
  return negative ? -sum : sum;
}

std::size_t digits_of_sums(const Device& device) { return backend_of(device).digits_of_sums(); }

std::vector<double> rounded_sums(std::span<const double> sums, std::size_t digits) {
  if (digits == 1) return {sums.begin(), sums.end()};
  std::vector<double> rounded;
  for (; !sums.empty(); sums = sums.subspan(digits)) {
    rounded.push_back(ExactSum(sums.first(digits)).value());
  }
  return rounded;
}

}  // namespace ultra::ops
