#include "common/nn/layers/loss_layer.hpp"

#include "common/ops/cross_entropy.hpp"

namespace ultra::nn {

double CrossEntropyLoss::forward(const Tensor& logits, const Tensor& targets, double normalizer,
                                 Saved& saved) {
  const Tensor& sum = saved.pass().loss_sum;
  const double z_loss = saved.pass().z_loss;
  double loss = 0;
  if (sum.defined()) {
    ops::cross_entropy_into_gradient(sum, logits, targets, normalizer, ops::Write::kAccumulate,
                                     z_loss);
  } else {
    loss = ops::cross_entropy_into_gradient(logits, targets, normalizer, z_loss);
  }
  saved.put("d_logits", logits);
  return loss;
}

Tensor CrossEntropyLoss::backward(Saved& saved) { return saved.take("d_logits"); }

}  // namespace ultra::nn
