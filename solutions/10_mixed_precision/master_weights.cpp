// Exercise 10.4: the update of master weights.
//
// The weights of two bytes are written and never read: what they lost in rounding must not come
// back into the master weights.
//
// Rounding adds a carry to the upper half. To undo it one must know whether there was one. The
// highest bit of the lower half shows it, if ties always go up; with ties to even a lower half of
// 0x8000 may mean both.
#include "chapters/10_mixed_precision/master_weights.hpp"

#include <bit>

namespace ultra::mixed_precision {
namespace {

std::uint16_t carry_of(std::uint16_t rest) { return rest >> 15; }

}  // namespace

// [region update_with_master]
void update_with_master(const Tensor& weights, const Tensor& gradient, const Tensor& master,
                        const OptimizerUpdate& update) {
  update(master, cast(gradient, DType::kF32));
  cast_into(weights, master);
}
// [/region]

// [region update_without_master]
Tensor update_without_master(const Tensor& weights, const Tensor& gradient,
                             const OptimizerUpdate& update) {
  Tensor wide = cast(weights, DType::kF32);
  update(wide, cast(gradient, DType::kF32));
  cast_into(weights, wide);
  return wide;
}
// [/region]

// [region split]
SplitMaster split(float master) {
  const auto bits = std::bit_cast<std::uint32_t>(master);
  const auto rest = static_cast<std::uint16_t>(bits);
  return {.weight = static_cast<std::uint16_t>((bits >> 16) + carry_of(rest)), .rest = rest};
}

float joined(const SplitMaster& split) {
  const auto upper = static_cast<std::uint16_t>(split.weight - carry_of(split.rest));
  return std::bit_cast<float>(std::uint32_t{upper} << 16 | split.rest);
}
// [/region]

}  // namespace ultra::mixed_precision
