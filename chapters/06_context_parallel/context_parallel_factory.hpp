#pragma once
/// @file
/// ContextParallelFactory: the one part of a model that looks at other tokens, on ranks that have parts
/// of each sequence.

#include <memory>

#include "chapters/06_context_parallel/attention_methods/context_method.hpp"
#include "chapters/06_context_parallel/attention_methods/sequence_attention.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/train/rank_counters.hpp"

namespace ultra::context_parallel {

/// @brief Rotary positions and causal attention of this rank's tokens, to those of all ranks.
///
/// Where they stand says Pass::places. What pads a sequence is rotated as its last token: nobody sees it.
class ContextAttention : public nn::AttentionCore {
 public:
  /// @param counters  of this rank; outlives this. Null: nobody counts.
  ContextAttention(const nn::BuildContext& context, std::unique_ptr<SequenceAttention> method,
                   train::RankCounters* counters);

  [[nodiscard]] Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                               nn::Saved& saved) override;
  [[nodiscard]] nn::QkvGradients backward(const Tensor& d_output, nn::Saved& saved) override;

 private:
  [[nodiscard]] AttentionScope scope(const nn::Saved& saved) const;
  [[nodiscard]] std::vector<std::int32_t> rotary_positions(const nn::Saved& saved) const;

  std::size_t seq_len_;
  std::size_t window_;
  std::shared_ptr<const ops::RopeTable> rope_;
  std::unique_ptr<SequenceAttention> method_;
  train::RankCounters* counters_;
};

/// @brief Makes attention over parts of sequences, and everything else as the inner factory does.
class ContextParallelFactory : public nn::FactoryWrapper {
 public:
  /// @param inner     outlives this.
  /// @param groups    of this rank.
  /// @param counters  of this rank; outlives what this makes. Null: nobody counts.
  ContextParallelFactory(nn::LayerFactory& inner, ContextGroups groups,
                         train::RankCounters* counters)
      : FactoryWrapper(inner), groups_(std::move(groups)), counters_(counters) {}

  [[nodiscard]] std::unique_ptr<nn::AttentionCore> attention_core(
      const nn::BuildContext& context) override;

 private:
  ContextGroups groups_;
  train::RankCounters* counters_;
};

}  // namespace ultra::context_parallel
