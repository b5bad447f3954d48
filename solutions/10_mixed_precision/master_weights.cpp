// Exercise 10.4: the update of master weights.
//
// The weights of two bytes are written and never read: what they lost in rounding must not come
// back into the master weights.
#include "chapters/10_mixed_precision/master_weights.hpp"

namespace ultra::mixed_precision {

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

}  // namespace ultra::mixed_precision
