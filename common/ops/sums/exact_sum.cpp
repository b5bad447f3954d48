#include "common/ops/sums/exact_sum.hpp"

#include <cmath>
#include <limits>

#include "common/base/errors.hpp"
#include "common/ops/backend/backend.hpp"

namespace ultra::ops {

using kernels::generic::ExactDigits;

ExactSum::ExactSum(std::span<const double> digits) {
  ensure(digits.size() == kDigits, "an exact sum has all of its digits");
  for (std::size_t i = 0; i < kDigits; ++i) sum_.digits[i] = static_cast<std::int64_t>(digits[i]);
}

void ExactSum::put(std::span<double> digits, Write write) {
  ensure(digits.size() == kDigits, "an exact sum has all of its digits");
  sum_.carry();
  for (std::size_t i = 0; i < kDigits; ++i) {
    digits[i] =
        (write == Write::kOverwrite ? 0.0 : digits[i]) + static_cast<double>(sum_.digits[i]);
  }
}

double ExactSum::value() {
  constexpr std::size_t kNoPlace = ExactDigits::kNoPlace;
  if (sum_.digits[kNoPlace] != 0) return std::numeric_limits<double>::quiet_NaN();
  sum_.carry();
  const bool negative = sum_.digits[kNoPlace - 1] < 0;
  ExactDigits magnitude = sum_;
  if (negative) {
    for (std::int64_t& digit : magnitude.digits) digit = -digit;
    magnitude.carry();
  }
  double sum = 0;
  for (std::size_t i = kNoPlace; i-- > 0;) {
    sum += std::ldexp(static_cast<double>(magnitude.digits[i]),
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
