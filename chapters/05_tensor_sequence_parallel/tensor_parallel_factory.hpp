#pragma once
/// @file
/// TensorParallelFactory: the parts of a model whose matrices are split over ranks.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/region.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::tensor_parallel {

/// @brief What a rank computes while tensor-parallel communication is under way.
enum class TensorOverlap : std::uint8_t {
  kNone,      ///< nothing
  kBackward,  ///< the gradients of weights, and a part of the input's
  kRing,      ///< the products of the chunks that are here; with sequence parallelism
};

/// @brief This rank's shard of a linear map whose outputs are dealt out; heads stay whole.
/// @param layout  valid for the model.
/// @param rank    of tp.
[[nodiscard]] nn::ParameterSpec column_shard(const nn::LinearSpec& spec,
                                             const TensorParallelLayout& layout, int rank);

/// The group of all ranks that share the model's matrices: norm weights are whole on each of them.
inline constexpr std::string_view kTensorGroup = "tp";
/// The group of those that hold the same key/value heads, when there are fewer heads than ranks.
inline constexpr std::string_view kHeadGroup = "key/value head";

/// @brief The ranks that hold the same outputs: several when there are fewer heads than ranks.
[[nodiscard]] nn::Replication column_replication(const nn::LinearSpec& spec,
                                                 const TensorParallelLayout& layout, int rank);

/// @brief This rank's shard of a linear map whose inputs are dealt out.
[[nodiscard]] nn::ParameterSpec row_shard(const nn::LinearSpec& spec,
                                          const TensorParallelLayout& layout, int rank);

/// @brief Makes linear layers, token table and loss in parts, and everything else as the inner
/// factory does, on this rank's heads and tokens.
///
/// Norm weights are whole on every rank, and so are linear maps of single tokens. Those of queries and keys always have partial gradients
/// (nn::CopyGradients), as ranks have other heads, and the others with sequence parallelism: these
/// have to be added up once per step.
class TensorParallelFactory : public nn::FactoryWrapper {
 public:
  /// @param inner              outlives this.
  /// @param tp                 the ranks that share the model's matrices.
  /// @param sequence_parallel  what they do with sequences.
  /// @param overlap            kRing with sequence parallelism only.
  /// @throws InternalError for kRing without it.
  TensorParallelFactory(nn::LayerFactory& inner, Communicator tp,
                        SequenceParallel sequence_parallel, TensorOverlap overlap);

  [[nodiscard]] std::unique_ptr<nn::Layer> norm(const nn::BuildContext& context,
                                                const nn::NormSpec& spec) override;
  [[nodiscard]] std::unique_ptr<nn::Projections> column_linear(
      const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) override;
  [[nodiscard]] std::unique_ptr<nn::Layer> row_linear(const nn::BuildContext& context,
                                                      const nn::LinearSpec& spec) override;
  [[nodiscard]] std::unique_ptr<nn::Projections> token_linear(
      const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) override;
  [[nodiscard]] std::unique_ptr<nn::Layer> shared_by_heads(
      const nn::BuildContext& context) override;
  [[nodiscard]] std::unique_ptr<nn::TokenEmbedding> embedding(
      const nn::BuildContext& context) override;
  [[nodiscard]] std::unique_ptr<nn::Projections> tied_head(const nn::BuildContext& context,
                                                           nn::Parameter& table) override;
  [[nodiscard]] std::unique_ptr<nn::LossLayer> loss(const nn::BuildContext& context) override;

  /// @brief How the model is split.
  [[nodiscard]] const TensorParallelLayout& layout() const { return layout_; }

 private:
  void keep_whole(const std::vector<nn::Parameter*>& parameters, bool partial) const;

  Communicator tp_;
  TensorParallelLayout layout_;
  TensorOverlap overlap_;
  std::shared_ptr<Region> region_;
};

}  // namespace ultra::tensor_parallel
