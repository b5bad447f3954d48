#include "chapters/10_mixed_precision/fp8/accumulator.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/errors.hpp"

namespace ultra::mixed_precision {

void ProductSum::add(std::span<const float> products) {
  ensure(products.size() <= kInstructionProducts, "an instruction's products");
  if (accumulator_ == Accumulator::kFewBits) return add_few_bits(products);
  auto sum = static_cast<float>(sum_);
  for (const float product : products) sum += product;
  sum_ = sum;
}

// [region few_bits]
void ProductSum::add_few_bits(std::span<const float> products) {
  double largest = std::abs(sum_);
  for (const float product : products) largest = std::max(largest, std::abs(double{product}));
  if (!std::isfinite(largest)) return void(sum_ = std::nan(""));
  if (largest == 0.0) return;
  const double place = std::ldexp(1.0, std::ilogb(largest) - (kAccumulatorBits - 1));
  const auto cut = [place](double x) { return std::trunc(x / place) * place; };
  sum_ = cut(sum_);
  for (const float product : products) sum_ += cut(product);
}
// [/region]

}  // namespace ultra::mixed_precision
