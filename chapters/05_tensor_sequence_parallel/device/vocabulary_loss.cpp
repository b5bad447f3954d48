#include "chapters/05_tensor_sequence_parallel/device/vocabulary_loss.hpp"

namespace ultra::tensor_parallel {

double loss_on_device(const ops::LogitsOfPart& part, double normalizer, const Communicator& tp,
                      const Tensor& sum) {
  const Tensor& logits = part.logits;
  logits.slice(-1, {part.vocabulary.size(), logits.size(-1)}).fill(0.0);
  const Tensor highest = ops::highest_logits(part);
  tp.labeled("highest logit").all_reduce(highest, ReduceOp::kMax).wait();
  const Tensor sums = ops::exponentials_of_logits(part, highest);
  tp.labeled("sum of exponentials").all_reduce(sums).wait();
  if (sum.defined()) {
    ops::cross_entropy_of_parts(sum, part, highest, sums, normalizer, ops::Write::kAccumulate);
    return 0;
  }
  const Tensor loss = Tensor::empty(logits.device(), {1}, DType::kF64);
  ops::cross_entropy_of_parts(loss, part, highest, sums, normalizer, ops::Write::kOverwrite);
  return loss.to_vector().front();
}

}  // namespace ultra::tensor_parallel
