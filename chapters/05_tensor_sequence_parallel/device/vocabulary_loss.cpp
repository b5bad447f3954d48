#include "chapters/05_tensor_sequence_parallel/device/vocabulary_loss.hpp"

#include "common/ops/sums/exact_sum.hpp"

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
  const std::size_t digits = ops::digits_of_sums(logits.device());
  const Tensor loss = Tensor::empty(logits.device(), {digits}, DType::kF64);
  ops::cross_entropy_of_parts(loss, part, highest, sums, normalizer, ops::Write::kOverwrite);
  return ops::rounded_sums(loss.to_vector(), digits).front();
}

}  // namespace ultra::tensor_parallel
