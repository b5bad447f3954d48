#pragma once
/// @file
/// ShardedModel: what a rank keeps of a model, of its gradients and of the optimizer, in each stage
/// of ZeRO.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "chapters/04_zero/offload/offload_settings.hpp"
#include "chapters/04_zero/offload/offloaded_states.hpp"
#include "chapters/04_zero/prefetch.hpp"
#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/shards/shard_groups.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus.hpp"
#include "chapters/04_zero/zero_stage.hpp"
#include "common/nn/model.hpp"
#include "common/optim/adamw.hpp"
#include "common/train/gradients/model_states.hpp"
#include "common/train/step_schedule.hpp"

namespace ultra::zero {

/// @brief How a model is sharded.
struct ZeroSettings {
  ZeroStage stage = ZeroStage::kParameters;  ///< what exists as shards only; not kNone
  std::size_t bucket_capacity = 0;           ///< elements of a bucket; stage 3 has units instead
  Overlap overlap = Overlap::kOn;            ///< whether the rank computes while gradients travel
  std::size_t prefetch = 1;                  ///< units to gather ahead; stage 3
  Reshard reshard = Reshard::kAfterForward;  ///< what becomes of gathered units; stage 3
  ZeroPlusPlus plus_plus = {};               ///< how weights and gradients travel; stage 3
  OffloadSettings offload = {};              ///< what is outside the device, and where
  std::size_t recompute_every = 0;  ///< blocks that run forward again together; 0: none does
};

/// @brief Uses to look ahead when offloaded shards are fetched: one more than for gathers, or as
/// many when nothing shall overlap.
[[nodiscard]] inline std::size_t fetch_ahead(const ZeroSettings& settings) {
  return settings.prefetch + (settings.overlap == Overlap::kOn ? 1 : 0);
}

/// @brief Whose states are sharded.
struct ShardedScope {
  std::vector<nn::Model*> chunks;          ///< made with nn::Values::kDeferred; outlive the states
  std::vector<nn::Parameter*> parameters;  ///< of one data group, in forward order
  std::string data_group{nn::kDataGroup};  ///< whose
  train::StepSchedule schedule;            ///< of every step
  train::OptimizerParts optimizer = {.adamw = ops::adamw_into};  ///< of the shards
  nn::Precision precision = {};                                  ///< what it updates

  /// @brief All parameters of a whole model that passes micro-batches one after the other.
  [[nodiscard]] static ShardedScope whole(nn::Model& model, train::StepSchedule schedule);
};

/// @brief One rank's shards of a model, of which its parameters' values and gradients are views.
class ShardedModel : public train::ModelStates {
 public:
  /// @brief What is outside the device's memory; null when nothing is.
  [[nodiscard]] virtual std::shared_ptr<OffloadedStates> offloaded() const = 0;

  /// @brief Flat arrays of weights that every rank keeps as a whole; none in stage 3.
  [[nodiscard]] virtual const std::vector<Tensor>& whole() const = 0;
};

/// @brief Shards parameters, and makes their initial weights.
/// @throws InternalError for ZeroStage::kNone, and for offloaded weights in another stage than 3;
/// ConfigError when nodes of plus_plus do not make up the ranks; what OffloadedStates throws.
/// Collective over ranks.dp when nodes are made.
[[nodiscard]] std::unique_ptr<ShardedModel> shard_model(const ShardedScope& scope,
                                                        const ShardGroups& ranks,
                                                        const ZeroSettings& settings);

}  // namespace ultra::zero
