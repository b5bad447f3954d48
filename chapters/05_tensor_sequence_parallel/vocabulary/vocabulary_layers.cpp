#include "chapters/05_tensor_sequence_parallel/device/vocabulary_loss.hpp"
#include "chapters/05_tensor_sequence_parallel/vocabulary/vocabulary_z_loss.hpp"
#include "chapters/05_tensor_sequence_parallel/vocabulary_parallel.hpp"
#include "common/ops/embedding.hpp"
#include "common/ops/sums/exact_sum.hpp"
#include "common/ops/token_check.hpp"

namespace ultra::tensor_parallel {

Range vocabulary_of(std::size_t vocab_size, const Communicator& tp) {
  return TensorParallelLayout{.tp = tp.size()}.local_rows(vocab_size, tp.rank());
}

double VocabularyParallelLoss::forward(const Tensor& logits, const Tensor& targets,
                                       double normalizer, nn::Saved& saved) {
  ops::expect_targets(targets, vocab_size_);
  const Tensor wide = cast(logits, accumulation_dtype(logits.dtype()));  // softmax and loss in f32
  const Range vocabulary = vocabulary_of(vocab_size_, tp_);
  const double z_loss = saved.pass().z_loss;
  const Tensor log_sums = z_loss > 0 ? vocabulary_log_sums(wide, vocabulary, tp_) : Tensor();
  double loss =
      has_streams(logits.device().kind()) || ops::sums_by_trees(logits.device())
          ? loss_on_device({wide, targets, vocabulary}, normalizer, tp_, saved.pass().loss_sum)
          : vocabulary_parallel_cross_entropy(wide, targets, vocabulary, normalizer, tp_);
  if (z_loss > 0) {
    loss += add_vocabulary_z_loss(wide, targets, vocabulary, log_sums, z_loss, normalizer);
  }
  if (!wide.shares_storage(logits)) cast_into(logits, wide);
  saved.put("d_logits", logits);
  return loss;
}

Tensor VocabularyParallelLoss::backward(nn::Saved& saved) { return saved.take("d_logits"); }

Tensor VocabularyParallelEmbedding::forward(const Tensor& tokens, nn::Saved& saved) {
  ops::expect_token_ids("token", tokens, vocab_size_);
  saved.put("tokens", tokens);
  const Tensor part = ops::embedding_part(table_->value(), tokens, table_->shard()[0].begin);
  return region_->leave(part).wait();
}

void VocabularyParallelEmbedding::backward(const Tensor& d_y, nn::Saved& saved) {
  const Tensor d_all = region_->leave_backward(d_y).wait();
  table_->keep_for_grad(d_all);
  table_->add_grad([tokens = saved.take("tokens"), d_all, first = table_->shard()[0].begin](
                       const Tensor& grad, ops::Write write) {
    if (write == ops::Write::kOverwrite) grad.fill(0.0);
    ops::embedding_part_backward_into(grad, d_all, tokens, first);
  });
}

}  // namespace ultra::tensor_parallel
