#pragma once
/// @file
/// Norms, and maps of tokens, whose ranks have parts of each sequence, or some of the heads: the gradient of
/// the weight is one tree's, as on one rank.

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/layers/linear.hpp"
#include "common/nn/layers/norm.hpp"

namespace ultra::five_d {

/// @brief RMSNorm whose ranks make the gradient of its weight together.
class NormOnRanks : public nn::RmsNorm {
 public:
  /// @brief A norm. @param ranks  that have parts of what is normalised, in their order.
  NormOnRanks(const nn::BuildContext& context, const nn::NormSpec& spec, Communicator ranks)
      : RmsNorm(context, spec), ranks_(std::move(ranks)) {}

 protected:
  Communicator ranks_;  ///< of this group
};

/// @brief RMSNorm of a rank's part of each sequence, by trees: those that have the sequences, in the order
/// of their parts, each a node of the tree.
///
/// The tree over tokens has a sequence's parts below, and sequences above. So the ranks' nodes of each
/// sequence are joined first, in the backward pass; then each rank joins the sequences.
/// Cost: in the backward pass, an all-reduce of a weight for each sequence of the micro-batch; without
/// trees, one of a weight for each step does (tensor_parallel::sum_partial_gradients).
class PartedNorm : public NormOnRanks {
 public:
  using NormOnRanks::NormOnRanks;

 protected:
  [[nodiscard]] Tensor gradients(const Tensor& d_y, const Tensor& x, const Tensor& reciprocal_rms,
                                 const Tensor& d_weight) const override;
};

/// @brief RMSNorm of each head, by trees, of ranks that have the heads, in their order.
///
/// The weight is for all heads, and its gradient a sum over tokens and heads. Heads are below tokens: each
/// leaf of tokens joins the heads' sums, of which a rank has a node; then the tree over tokens joins leaves.
/// Cost: along tp, in the backward pass, an all-reduce of head_dim elements for each leaf of tokens.
class HeadNorm : public NormOnRanks {
 public:
  using NormOnRanks::NormOnRanks;

 protected:
  [[nodiscard]] Tensor gradients(const Tensor& d_y, const Tensor& x, const Tensor& reciprocal_rms,
                                 const Tensor& d_weight) const override;
};

/// @brief Linear maps that every rank has as a whole, for its part of each sequence: see PartedNorm.
/// Cost: in the backward pass, an all-reduce of a weight for each sequence of the micro-batch.
class PartedMaps : public nn::Projections {
 public:
  /// @param ranks  that have the sequences, in the order of their parts.
  PartedMaps(const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs,
             Communicator ranks);

  [[nodiscard]] std::vector<Tensor> forward(const Tensor& x, nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(std::span<const Tensor> d_y, nn::Saved& saved) override;
  [[nodiscard]] std::vector<nn::Parameter*> parameters() override { return maps_.parameters(); }

 private:
  nn::DenseProjections maps_;
  Communicator ranks_;
};

/// @brief Makes norms of heads as HeadNorm and, where ranks have parts of each sequence, norms and linear
/// maps of tokens as PartedNorm and PartedMaps; each rank has the whole gradients of their weights.
class PartedNormFactory : public nn::FactoryWrapper {
 public:
  /// @param inner             outlives this.
  /// @param tp                the ranks that share the model's matrices.
  /// @param splits_sequences  whether they share each sequence, too.
  PartedNormFactory(nn::LayerFactory& inner, Communicator tp, bool splits_sequences)
      : FactoryWrapper(inner), tp_(std::move(tp)), splits_sequences_(splits_sequences) {}

  [[nodiscard]] std::unique_ptr<nn::Layer> norm(const nn::BuildContext& context,
                                                const nn::NormSpec& spec) override;
  [[nodiscard]] std::unique_ptr<nn::Projections> token_linear(
      const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) override;

 private:
  void share(const std::vector<nn::Parameter*>& parameters) const;

  Communicator tp_;
  bool splits_sequences_;
};

}  // namespace ultra::five_d
