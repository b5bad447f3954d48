#pragma once
/// @file
/// The two ends of the model with the vocabulary in parts: token table, and cross-entropy.
///
/// The output projection gives every rank the logits of its part of the vocabulary. Gathering them would
/// move batch * seq * vocab elements, and keep them on every rank. The loss needs three numbers per token:
/// the highest logit, the sum of all exponentials, and the logit of the target.
///
/// Exercise 05.3 (`./workbook check 05.3`).
/// Body: solutions/05_tensor_sequence_parallel/vocabulary_parallel.cpp.
/// Source: Shoeybi et al. 2019, "Megatron-LM", arXiv 1909.08053, section 3.

#include <memory>

#include "chapters/05_tensor_sequence_parallel/region.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::tensor_parallel {

/// @brief Sum over tokens of -log softmax(logits)[target], divided by `normalizer`, of logits that the
/// ranks have in parts; replaces them by their gradient.
///
/// ops::cross_entropy_into_gradient() of the whole logits, without ever having them.
/// @param logits      [.., columns], those of the tokens of `vocabulary`; columns after these are
/// padding: they are not looked at, and their gradient is 0.
/// @param targets     [..] of i32, the same on every rank; each is in some rank's vocabulary, or
/// ops::kNoTarget: the token has no loss, and its gradient is 0.
/// @param vocabulary  the tokens [begin, end) that this rank has; may be none.
/// @param normalizer  usually the tokens of the global batch.
/// @return the loss, the same on every rank, bit for bit.
/// Collective over tp.
/// Cost: an all-reduce of one element per token (the maximum), and one of two.
[[nodiscard]] double vocabulary_parallel_cross_entropy(const Tensor& logits, const Tensor& targets,
                                                       Range vocabulary, double normalizer,
                                                       const Communicator& tp);

/// @brief The tokens that a rank has: equal parts, of which the last ones may be smaller.
[[nodiscard]] Range vocabulary_of(std::size_t vocab_size, const Communicator& tp);

/// @brief Cross-entropy of a vocabulary in parts. Saves "d_logits", in the logits' place.
class VocabularyParallelLoss : public nn::LossLayer {
 public:
  /// @param vocab_size  of the whole model.
  VocabularyParallelLoss(std::size_t vocab_size, Communicator tp)
      : vocab_size_(vocab_size), tp_(std::move(tp)) {}

  [[nodiscard]] double forward(const Tensor& logits, const Tensor& targets, double normalizer,
                               nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(nn::Saved& saved) override;

 private:
  std::size_t vocab_size_;
  Communicator tp_;
};

/// @brief A token table in parts: a rank looks up the tokens that it has, and the region adds the ranks'
/// results up. Saves "tokens".
///
/// Cost: that of the region's leave() and leave_backward().
class VocabularyParallelEmbedding : public nn::TokenEmbedding {
 public:
  /// @param vocab_size  of the whole model.
  /// @param table       [rows of this rank, hidden].
  VocabularyParallelEmbedding(std::size_t vocab_size, std::unique_ptr<nn::Parameter> table,
                              std::shared_ptr<Region> region)
      : vocab_size_(vocab_size), table_(std::move(table)), region_(std::move(region)) {}

  /// @brief [batch, seq] of i32 to [batch, local_seq, hidden].
  [[nodiscard]] Tensor forward(const Tensor& tokens, nn::Saved& saved) override;
  void backward(const Tensor& d_y, nn::Saved& saved) override;
  [[nodiscard]] std::vector<nn::Parameter*> parameters() override { return {table_.get()}; }

 private:
  std::size_t vocab_size_;
  std::unique_ptr<nn::Parameter> table_;
  std::shared_ptr<Region> region_;
};

}  // namespace ultra::tensor_parallel
