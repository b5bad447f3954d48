#include "common/ops/fp8/fp8_products.hpp"

#include <algorithm>
#include <utility>

namespace ultra::ops {
namespace {

thread_local const Fp8Products* of_this_thread = nullptr;

}  // namespace

Fp8Products::Fp8Products(std::vector<Tensor> right_factors, const Fp8Factors& factors)
    : right_factors_(std::move(right_factors)),
      factors_(factors),
      before_(std::exchange(of_this_thread, this)) {}

Fp8Products::~Fp8Products() { of_this_thread = before_; }

std::optional<Fp8Factors> Fp8Products::with(const Tensor& right_factor) {
  const bool is_one =
      of_this_thread != nullptr &&
      std::ranges::any_of(of_this_thread->right_factors_, [&](const Tensor& tensor) {
        return tensor.address() == right_factor.address() && tensor.shape() == right_factor.shape();
      });
  return is_one ? std::optional(of_this_thread->factors_) : std::nullopt;
}

}  // namespace ultra::ops
