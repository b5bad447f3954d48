#pragma once
/// @file
/// What this chapter's executable does, for it and for those of later chapters.

#include <optional>
#include <string>

#include "chapters/03_data_parallel/data_parallel_program.hpp"
#include "chapters/04_zero/checkpoints/checkpoint_options.hpp"
#include "chapters/04_zero/checkpoints/training_state.hpp"
#include "chapters/04_zero/estimate/sharded_bytes.hpp"
#include "chapters/04_zero/offload/offload_options.hpp"
#include "chapters/04_zero/sharded_model.hpp"
#include "chapters/04_zero/zero_options.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::zero {

/// @brief All flags up to this chapter, and training by them.
struct ZeroProgram {
  data_parallel::DataParallelProgram base;  ///< chapter 03's
  ZeroOptions zero;                         ///< what is sharded
  CheckpointOptions checkpoints;            ///< what is saved, and where
  OffloadOptions offload;                   ///< what is outside the device

  /// @brief Adds all flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the flags against each other, but for those that only training needs, and
  /// settles the number of ranks.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate();

  /// @brief All flags for the metrics file.
  [[nodiscard]] train::ExtraConfig config() const;

  /// @brief The answer to --estimate, on as many replicas as --dp or --ranks says: 8 by default.
  [[nodiscard]] std::string estimate() const;

  /// @brief How the model is sharded, and what of it is offloaded; only when zero.shards().
  [[nodiscard]] ZeroSettings settings() const;

  /// @brief What the closed forms of a sharded training need.
  [[nodiscard]] ShardedRun sharded_run() const;

  /// @brief Trains as the flags say.
  /// @param extra_config  all flags of the executable, for the metrics file.
  /// Collective over ranks.world.
  [[nodiscard]] train::TrainResult train_on(const data_parallel::ReplicaRanks& ranks,
                                            nn::LayerFactory& factory,
                                            const train::ExtraConfig& extra_config) const;

  /// @brief The tables of a training on whole replicas; empty when it made no step.
  [[nodiscard]] std::string tables(const train::TrainResult& result) const;

 private:
  void expect_weights_in_one_place() const;
  void expect_whole_state() const;
  [[nodiscard]] KeepState keep_state() const;
  [[nodiscard]] train::TrainResult train_sharded(const data_parallel::ReplicaRanks& ranks,
                                                 nn::LayerFactory& factory,
                                                 const train::ExtraConfig& extra_config) const;
  [[nodiscard]] train::TrainResult train_replicas(const data_parallel::ReplicaRanks& ranks,
                                                  nn::LayerFactory& factory,
                                                  const train::ExtraConfig& extra_config) const;
};

}  // namespace ultra::zero
