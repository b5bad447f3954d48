#include "common/ops/sums/exact_sum.hpp"

#include <cmath>
#include <limits>

#include "common/base/errors.hpp"
#include "common/ops/backend/backend.hpp"

namespace ultra::ops {
namespace {

using kernels::generic::ExactDigits;

constexpr std::size_t kNoPlace = ExactDigits::kNoPlace;
constexpr std::size_t kMostAdded = std::size_t{1} << 29;  // each adds less than 2^33 to a digit

}  // namespace

ExactSum::ExactSum(std::span<const double> digits) {
  ensure(digits.size() == kDigits, "an exact sum has all of its digits");
  for (std::size_t i = 0; i < kDigits; ++i) digits_[i] = static_cast<std::int64_t>(digits[i]);
}

void ExactSum::add(double term) {
  const ExactDigits::Term of = ExactDigits::term_of(term);
  for (std::size_t i = 0; i < ExactDigits::kOfTerm; ++i) digits_[of.place + i] += of.parts[i];
  if (++added_ == kMostAdded) carry();
}

void ExactSum::carry() {
  std::int64_t up = 0;
  for (std::size_t i = 0; i < kDigits; ++i) {
    digits_[i] += up;
    up = ExactDigits::carry(i, digits_[i]);
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
                      ExactDigits::kBits * static_cast<int>(i) - ExactDigits::kFraction);
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
