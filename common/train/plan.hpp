#pragma once
/// @file
/// Plan: what this rank does, and with whom. Computed once per run, before any model exists.

#include <cstddef>
#include <memory>
#include <vector>

#include "common/comm/mesh.hpp"
#include "common/nn/model.hpp"
#include "common/train/micro_batch.hpp"
#include "common/train/options/options.hpp"
#include "common/train/rank_counters.hpp"
#include "common/train/rank_groups.hpp"
#include "common/train/step_schedule.hpp"
#include "common/train/token_plan.hpp"

namespace ultra::train {

/// @brief Everything that distinguishes this rank from the others, for a whole run.
///
/// | question                                   | answer                                     |
/// |--------------------------------------------|--------------------------------------------|
/// | where does it stand?                       | mesh                                       |
/// | who holds the same weights?                | groups, by the names that parameters give   |
/// | which layers does it have?                 | chunks                                     |
/// | with whom does it make a step?             | in_step: their losses and norms add up      |
/// | which sequences, and in which pieces?      | share, micro_batches: equally many for all  |
/// | which tokens of each sequence?             | tokens                                     |
/// | what does it do in a step?                 | schedule                                   |
///
/// Its loss and its gradients are shares of the global batch's, for every token loss is divided by
/// the tokens of the global batch. So sums over ranks complete them, along whatever axis.
struct Plan {
  Mesh mesh;                          ///< the ranks that train, as a grid
  Communicator in_step;               ///< those that make each step together; unless changed, all
  RankGroups groups;                  ///< nn::kDataGroup, and those that techniques add
  LocalBatch share;                   ///< of each global batch
  std::vector<nn::StageSpec> chunks;  ///< parts of the model, in the order of their layers
  std::vector<MicroBatch> micro_batches;  ///< of the share
  StepSchedule schedule;                  ///< of every step
  TokenPlan tokens = {};                  ///< of each sequence
  /// What its layers count, for the metrics.
  std::shared_ptr<RankCounters> counters = std::make_shared<RankCounters>();

  /// @brief The ranks that train.
  [[nodiscard]] const Communicator& ranks() const { return mesh.world(); }

  /// @brief Whether this rank's losses count: those that share matrices all compute the same.
  [[nodiscard]] bool counts_loss() const;
};

/// @brief What a plan follows from, besides the options.
struct PlanRules {
  SplitRule share;        ///< deals the global batch out
  CutRule cut;            ///< cuts a share into micro-batches
  ScheduleRule schedule;  ///< orders their passes
};

/// @brief The plan of this rank: the whole model in one chunk, until a technique changes that.
/// @param ranks  those that train; as many as the shape has.
/// @throws ConfigError when shape, batch or micro-batch do not fit; the same on every rank.
/// Collective over ranks.
[[nodiscard]] Plan make_plan(const TrainOptions& options, const Communicator& ranks,
                             const MeshShape& shape, const PlanRules& rules);

}  // namespace ultra::train
