#pragma once
/// @file
/// ShardedModel: what a rank keeps of a model and of its gradients, in each stage of ZeRO.

#include <cstddef>
#include <memory>
#include <vector>

#include "chapters/03_data_parallel/gradient_sync.hpp"
#include "chapters/04_zero/offload/offload_settings.hpp"
#include "chapters/04_zero/offload/offloaded_states.hpp"
#include "chapters/04_zero/prefetch.hpp"
#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/shards/shard_groups.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus.hpp"
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
  OffloadSettings offload = {};              ///< what is outside the device, and where
};

/// @brief Uses to look ahead when offloaded shards are fetched: one more than for gathers, or as many
/// when nothing shall overlap.
[[nodiscard]] inline std::size_t fetch_ahead(const ZeroSettings& settings) {
  return settings.prefetch + (settings.overlap == Overlap::kOn ? 1 : 0);
}

/// @brief A part of a parameter whose states one rank owns.
struct OwnedPiece {
  const nn::Parameter* parameter = nullptr;  ///< of the model
  Range elements;                            ///< of the parameter, row-major
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

  /// @brief The pieces of parameters that this rank updates: the same in each step.
  [[nodiscard]] virtual const std::vector<OwnedPiece>& pieces() const = 0;

  /// @brief The weights of a piece, on the device. Offloaded weights are there while their moments are
  /// borrowed, and anything at other times: between steps, use read_weights() and write_weights().
  /// @param piece  its number in pieces().
  [[nodiscard]] virtual Tensor weights(std::size_t piece) = 0;

  /// @brief Copies the weights of a piece, wherever they are, between steps.
  /// @param out  [n] on the CPU.
  virtual void read_weights(std::size_t piece, const Tensor& out) = 0;

  /// @brief Replaces the weights of a piece, wherever they are, between steps.
  /// @param in  [n] on the CPU.
  virtual void write_weights(std::size_t piece, const Tensor& in) = 0;

  /// @brief What is outside the device's memory; null when nothing is.
  [[nodiscard]] virtual std::shared_ptr<OffloadedStates> offloaded() const = 0;

  /// @brief pieces() with their weights and gradients. Only after sync() is finished.
  [[nodiscard]] virtual std::vector<optim::TensorUpdate> own() = 0;

  /// @brief Flat arrays of weights that every rank keeps as a whole; none in stage 3.
  [[nodiscard]] virtual const std::vector<Tensor>& whole() const = 0;

  /// @brief Frees the gradients.
  virtual void drop_gradients() = 0;
};

/// @brief Shards a model that was made with nn::Values::kDeferred, and makes its initial weights.
/// @param model  outlives the result. Its hooks stay when the result is gone, so its passes must not
/// run any more then.
/// @throws InternalError for ZeroStage::kNone, and for offloaded weights in another stage than 3;
/// ConfigError when nodes of plus_plus do not make up the ranks; what OffloadedStates throws.
[[nodiscard]] std::unique_ptr<ShardedModel> shard_model(nn::Model& model, const ShardGroups& ranks,
                                                        const ZeroSettings& settings);

}  // namespace ultra::zero
