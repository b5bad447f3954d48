#pragma once
/// @file
/// ShardedModel: what a rank keeps of a model and of its gradients, in each stage of ZeRO.

#include <cstddef>
#include <memory>
#include <vector>

#include "chapters/03_data_parallel/gradient_sync.hpp"
#include "chapters/04_zero/prefetch.hpp"
#include "chapters/04_zero/shard_groups.hpp"
#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/zero_plus_plus.hpp"
#include "chapters/04_zero/zero_stage.hpp"
#include "common/nn/model.hpp"
#include "common/optim/adamw.hpp"

namespace ultra::zero {

/// @brief How a model is sharded.
struct ZeroSettings {
  ZeroStage stage = ZeroStage::kParameters;  ///< what exists as shards only; not kNone
  std::size_t bucket_capacity = 0;           ///< elements of a bucket; stage 3 has units instead
  Overlap overlap = Overlap::kOn;            ///< whether the rank computes while gradients travel
  std::size_t prefetch = 1;                  ///< units to gather ahead; stage 3
  Reshard reshard = Reshard::kAfterForward;  ///< what becomes of gathered units; stage 3
  ZeroPlusPlus plus_plus = {};               ///< how weights and gradients travel; stage 3
};

/// @brief One rank's part of a model, of which its parameters' values and gradients are views.
///
/// A step: passes under sync(), then an optimizer step of own(), an all-gather of whole(), and
/// drop_gradients().
class ShardedModel {
 public:
  ShardedModel() = default;
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;
  virtual ~ShardedModel() = default;

  /// @brief Averages the gradients; when it is finished, own() has this rank's shards.
  [[nodiscard]] virtual data_parallel::GradientSync& sync() = 0;

  /// @brief The pieces of parameters that this rank updates, with their gradients: the same pieces in
  /// each step. Only after sync() is finished.
  [[nodiscard]] virtual std::vector<optim::TensorUpdate> own() = 0;

  /// @brief Flat arrays of weights that every rank keeps as a whole; none in stage 3.
  [[nodiscard]] virtual const std::vector<Tensor>& whole() const = 0;

  /// @brief Frees the gradients.
  virtual void drop_gradients() = 0;
};

/// @brief Shards a model that was made with nn::Values::kDeferred, and makes its initial weights.
/// @param model  outlives the result. Its hooks stay when the result is gone, so its passes must not
/// run any more then.
/// @throws InternalError for ZeroStage::kNone; ConfigError when nodes of plus_plus do not make up the
/// ranks.
[[nodiscard]] std::unique_ptr<ShardedModel> shard_model(nn::Model& model, const ShardGroups& ranks,
                                                        const ZeroSettings& settings);

}  // namespace ultra::zero
