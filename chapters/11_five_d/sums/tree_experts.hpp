#pragma once
/// @file
/// Mixtures of experts by trees: the same bits wherever the experts are, and their tokens.
///
/// Why they are the same:
/// - A row that an expert makes follows from its token and from weights alone, not from rows beside it.
///   Along tp, which has a part of each expert's width, the parts of rows are added up before anything is
///   done with them; so routers and tokens have whole numbers, on every rank of tp the same.
/// - A token adds up its rows on its own rank, in the order of the experts' numbers.
/// - The gradient of an expert's weight is a sum over all tokens, where one that went elsewhere counts
///   as 0. So it has the tree over tokens that all weights have, which no choice changes. A row says at
///   which place its token stands among those of the ranks that share the experts out. These ranks are
///   neighbours, and the batch is dealt out in turn (deals_in_turn): of a micro-batch, they have one node.
/// - Terms of the loss are added up without rounding, token by token; choices are counted.

#include <memory>
#include <span>
#include <vector>

#include "chapters/08_expert_parallel/moe/expert_linears.hpp"
#include "chapters/08_expert_parallel/moe_layer.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::five_d {

/// @brief Writes the gradient of an expert's weight, or adds it: a sum over places, by a tree.
/// @param grad    [out, in].
/// @param d_y     [rows, out] and
/// @param x       [rows, in], at least one row.
/// @param places  [rows] of i32, ascending: where each row's token stands; others count as 0.
/// @param leaf    places of a leaf.
/// Memory: rows of zeros for the other places.
void expert_gradient_into(const Tensor& grad, const Tensor& d_y, const Tensor& x,
                          const Tensor& places, std::size_t leaf, ops::Write write);

/// @brief Linear maps of experts, each with whole sums before the next one's are added.
/// Cost: along tp, an all-reduce of rows for each map whose sums tp cuts.
class TreeExpertLinears : public expert_parallel::ExpertLinears {
 public:
  /// @param maps  which have the weights.
  /// @param tp    the ranks that share each expert.
  /// @param leaf  tokens of a leaf.
  TreeExpertLinears(std::unique_ptr<expert_parallel::ExpertLinears> maps, Communicator tp,
                    std::size_t leaf);

  [[nodiscard]] std::vector<Tensor> forward(const Tensor& x, std::span<const std::size_t> rows,
                                            nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(std::span<const Tensor> d_y, std::span<const std::size_t> rows,
                                nn::Saved& saved) override;
  [[nodiscard]] std::vector<nn::Parameter*> parameters() override { return weights_; }

 private:
  [[nodiscard]] Tensor product(const Tensor& x, std::span<const std::size_t> rows,
                               std::size_t first, ops::Transpose transpose, bool in_parts) const;
  void add_grads(const Tensor& d_y, const Tensor& x, const Tensor& places,
                 std::span<const std::size_t> rows, std::size_t first) const;

  std::unique_ptr<expert_parallel::ExpertLinears> maps_;
  std::vector<nn::Parameter*> weights_;  // all experts' of the first map, then those of the next
  Communicator tp_;
  std::size_t leaf_;
};

/// @brief Makes mixtures of experts by trees, and everything else as the inner factory.
class TreeExpertsFactory : public nn::FactoryWrapper {
 public:
  /// @param inner  outlives this.
  /// @param scope  of this rank.
  /// @param tp     the ranks that share each expert.
  /// @param leaf   tokens of a leaf.
  /// @param sequence_parallel  what tp does with sequences.
  TreeExpertsFactory(nn::LayerFactory& inner, expert_parallel::MoeScope scope,
                     const Communicator& tp, std::size_t leaf,
                     tensor_parallel::SequenceParallel sequence_parallel);

  [[nodiscard]] std::unique_ptr<nn::Layer> feed_forward(const nn::BuildContext& context,
                                                        std::size_t layer) override;

 private:
  expert_parallel::MoeScope scope_;
  Communicator tp_;
  std::size_t leaf_;
};

}  // namespace ultra::five_d
