// Exercise 10.4: the update of master weights.
//
// The weights of two bytes are written and never read: what they lost in rounding must not come
// back into the master weights.
#include "chapters/10_mixed_precision/master_weights.hpp"

namespace ultra::mixed_precision {

// [region update_with_master]
void update_with_master(const WeightUpdate& update, const Tensor& master,
                        const optim::AdamWUpdate& adamw, const ops::AdamWStep& constants) {
  const Tensor gradient = cast(update.gradient, master.dtype());
  adamw(master, gradient, update.moments.first, update.moments.second, constants);
  cast_into(update.weights, master);
}
// [/region]

// [region update_without_master]
Tensor update_without_master(const WeightUpdate& update, const optim::AdamWUpdate& adamw,
                             const ops::AdamWStep& constants) {
  const DType wide = update.moments.first.dtype();
  Tensor weights = cast(update.weights, wide);
  adamw(weights, cast(update.gradient, wide), update.moments.first, update.moments.second,
        constants);
  cast_into(update.weights, weights);
  return weights;
}
// [/region]

}  // namespace ultra::mixed_precision
