#pragma once
/// @file
/// The stages of ZeRO: what a rank keeps of a model, of its gradients and of the optimizer's states.
///
/// zero1.cpp, zero2.cpp and zero3.cpp show what becomes of them in a step, in the order of time.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chapters/04_zero/offload/offload_options.hpp"
#include "chapters/04_zero/offload/offloaded_states.hpp"
#include "chapters/04_zero/prefetch.hpp"
#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
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
  ShardCut cut = ShardCut::kFlat;            ///< how tensors become shards; stage 3
  std::optional<DType> gather = {};  ///< in which rows travel to the passes; absent: their own
  Overlap overlap = Overlap::kOn;    ///< whether the rank computes while gradients travel
  std::size_t prefetch = 1;          ///< units to gather ahead; stage 3
  Reshard reshard = Reshard::kAfterForward;  ///< what becomes of gathered units; stage 3
  ZeroPlusPlus plus_plus = {};               ///< how weights and gradients travel; stage 3
  OffloadSettings offload = {};              ///< what is outside the device, and where
  std::size_t recompute_every = 0;  ///< blocks that run forward again together; 0: none does
};

/// @brief Whose states are sharded.
struct ShardedScope {
  std::vector<nn::Model*> chunks;          ///< made with nn::Values::kDeferred; outlive the states
  std::vector<nn::Parameter*> parameters;  ///< of one data group, in forward order
  std::string data_group{nn::kDataGroup};  ///< whose
  train::StepSchedule schedule;            ///< of every step
  train::OptimizerParts optimizer = {.rule = optim::adamw()};  ///< of the shards
  nn::Precision precision = {};                                ///< what it updates
  std::size_t matrices_at_once = 0;  ///< whole on each rank in a step of Muon; 0: all of them

  /// @brief All parameters of a whole model that passes micro-batches one after the other.
  [[nodiscard]] static ShardedScope whole(nn::Model& model, train::StepSchedule schedule);
};

/// @brief Where a piece lies: in the shard of a group.
struct PieceSite {
  std::size_t group;  ///< its number
  Range elements;     ///< of the rank's shard
};

/// @brief One rank's shards of a model, of which its parameters' values and gradients are views:
/// what the three stages have in common.
class ShardedModel : public train::ModelStates {
 public:
  Tensor weights(std::size_t piece) override;
  void share_weights() override;
  void step_ended(train::RankMeter& meter) override;
  void conclude(train::RankMeter& meter) override;

  /// @brief What is outside the device's memory; null when nothing is.
  [[nodiscard]] const std::shared_ptr<OffloadedStates>& offloaded() const { return offloaded_; }

  /// @brief Flat arrays of weights that every rank keeps as a whole; none in stage 3.
  [[nodiscard]] const std::vector<Tensor>& whole() const { return whole_; }

 protected:
  /// @param groups  of the parameters that are trained, in the order in which backward passes make their
  /// gradients.
  /// @param frozen  what this rank keeps of the others.
  ShardedModel(const ShardedScope& scope, std::vector<ParameterGroup> groups,
               std::vector<train::OwnedPiece> frozen, ShardGroups ranks,
               const OffloadSettings& offload);

  /// @brief Makes the initial weights, which every rank keeps; frozen ones each for itself.
  /// @param parameters  all of them.
  void keep_whole_weights(const std::vector<nn::Parameter*>& parameters);

  /// @brief The groups, with the numbers that units and gradients have too.
  [[nodiscard]] const std::vector<ParameterGroup>& groups() const { return groups_; }
  /// @brief Where a piece that is trained lies.
  [[nodiscard]] const PieceSite& site(std::size_t piece) const { return sites_.at(piece); }
  /// @brief Who has the other shards.
  [[nodiscard]] const Communicator& shards() const { return ranks_.shards; }

 private:
  ShardGroups ranks_;
  std::vector<ParameterGroup> groups_;
  std::vector<PieceSite> sites_;  // by piece that is trained
  std::shared_ptr<OffloadedStates> offloaded_;
  std::vector<Tensor> whole_;  // by group
};

/// @brief What this rank owns of groups, and speaks for unless it has a copy of the first ones' shards.
[[nodiscard]] std::vector<train::OwnedPiece> owned_pieces(const std::vector<ParameterGroup>& groups,
                                                          const ShardGroups& ranks);

/// @brief Those of them that are frozen: ZeRO-3's units have them, too.
[[nodiscard]] std::vector<train::OwnedPiece> frozen_pieces(const std::vector<ParameterGroup>& units,
                                                           const ShardGroups& ranks);

/// @brief By piece, where a rank's weights lie in units: first those that are trained, then the frozen ones.
[[nodiscard]] std::vector<PieceSite> weight_sites(const std::vector<ParameterGroup>& units,
                                                  int rank);

/// @brief Parameters that every rank of `dp` keeps as wholes, and nobody updates: the first one saves them.
[[nodiscard]] std::vector<train::OwnedPiece> kept_as_wholes(
    const std::vector<nn::Parameter*>& parameters, const Communicator& dp);

/// @brief Shards parameters, and makes their initial weights.
/// @throws ConfigError for a flat unit with frozen parameters and trained ones;
/// InternalError for ZeroStage::kNone, for offloaded weights in another stage than 3, and for rows of
/// offloaded weights or with plus_plus;
/// ConfigError, too, when nodes of plus_plus do not make up the ranks; what OffloadedStates throws.
/// Collective over ranks.dp when nodes are made.
[[nodiscard]] std::unique_ptr<ShardedModel> shard_model(const ShardedScope& scope,
                                                        const ShardGroups& ranks,
                                                        const ZeroSettings& settings);

/// @brief ZeRO-1: weights and gradients as wholes; only the optimizer's states are shards.
[[nodiscard]] std::unique_ptr<ShardedModel> zero1(const ShardedScope& scope,
                                                  const ShardGroups& ranks,
                                                  const ZeroSettings& settings);
/// @brief ZeRO-2: weights as wholes, gradients as shards.
[[nodiscard]] std::unique_ptr<ShardedModel> zero2(const ShardedScope& scope,
                                                  const ShardGroups& ranks,
                                                  const ZeroSettings& settings);
/// @brief ZeRO-3: everything as shards; units of weights come and go.
[[nodiscard]] std::unique_ptr<ShardedModel> zero3(const ShardedScope& scope,
                                                  const ShardGroups& ranks,
                                                  const ZeroSettings& settings);

}  // namespace ultra::zero
