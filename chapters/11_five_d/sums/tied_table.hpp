#pragma once
/// @file
/// A token table that is the output matrix too: both of its gradients are one tree's.
///
/// Each token gives the table two terms: one as input of the output matrix, one as a row that was looked
/// up. If the gradients of the two layers were added up one after the other, micro-batches of another size
/// would add in another order. So each leaf of the tree over tokens is joined from both: one product over
/// an axis that has a leaf of the first, a leaf of the second, the next leaf of the first, and so on.
///
/// Two stages of a pipeline have one term each. The last one sends its terms to the first, which makes the
/// gradient of both as one rank would; the last one's own is 0, and their sum is the first one's.

#include <memory>
#include <utility>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/region.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::five_d {

/// @brief What the output matrix has for the gradient of its table, until the embedding's pass.
struct HeadTerms {
  Tensor d_logits;  ///< [batch, seq, rows of the table here]
  Tensor input;     ///< [batch, seq, hidden]
};

/// @brief Writes the gradient of a part of the table, or adds it.
/// @param grad         [rows, hidden].
/// @param head         of all tokens.
/// @param tokens       [batch, seq] of i32.
/// @param d_output     [batch, seq, hidden], of what was looked up.
/// @param first_token  whose row is the part's first.
/// Memory: twice d_logits.
void tied_gradient_into(const Tensor& grad, const HeadTerms& head, const Tensor& tokens,
                        const Tensor& d_output, std::size_t first_token, ops::Write write);

class TiedTerms;

/// @brief Makes the two layers of a tied table, and everything else as the inner factory.
///
/// Memory: gradients of logits, of each micro-batch whose backward pass has left the head and is not yet at
/// the table. Cost: between two stages, these and the head's input, of each micro-batch.
class TiedTableFactory : public nn::FactoryWrapper {
 public:
  /// @param inner              outlives this.
  /// @param tp                 the ranks that share the table.
  /// @param sequence_parallel  what they do with sequences.
  /// @param ends               the ranks that have embedding and head, in this order; one if it has both.
  TiedTableFactory(nn::LayerFactory& inner, const Communicator& tp,
                   tensor_parallel::SequenceParallel sequence_parallel, const Communicator& ends);

  [[nodiscard]] std::unique_ptr<nn::TokenEmbedding> embedding(
      const nn::BuildContext& context) override;
  [[nodiscard]] std::unique_ptr<nn::Projections> tied_head(const nn::BuildContext& context,
                                                           nn::Parameter& table) override;
  [[nodiscard]] std::unique_ptr<nn::Projections> column_linear(
      const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) override;

 private:
  std::shared_ptr<tensor_parallel::Region> region_;
  std::shared_ptr<TiedTerms> terms_;
};

}  // namespace ultra::five_d
