#pragma once
/// @file
/// What this chapter's executable does, for it and for those of later chapters.

#include <functional>
#include <memory>
#include <string>

#include "chapters/01_memory/memory_options.hpp"
#include "chapters/02_collectives/collectives_options.hpp"
#include "chapters/03_data_parallel/data_parallel_options.hpp"
#include "chapters/03_data_parallel/parameter_server/server_options.hpp"
#include "chapters/03_data_parallel/scaling/scaling_options.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/optim/adamw.hpp"
#include "common/train/model_worker.hpp"
#include "common/train/options/options.hpp"
#include "common/train/report/metrics.hpp"
#include "common/train/update.hpp"

namespace ultra::data_parallel {

/// @brief Puts a worker around the one of a replica, or returns that.
using ChangeReplica = std::function<std::unique_ptr<train::Worker>(
    std::unique_ptr<train::ModelWorker> worker, std::shared_ptr<optim::AdamW> optimizer,
    const train::RunContext& context)>;

/// @brief What the ranks of a training are to each other.
struct ReplicaRanks {
  Communicator world;  ///< all of them
  Communicator dp;     ///< those that hold the same part of the model as this one, in each replica
  /// Completes the gradients of a rank that has a part of the model only; empty: it has all of it.
  train::FinishGradients finish_gradients = {};

  /// @brief Every rank is a replica, or a server.
  [[nodiscard]] static ReplicaRanks whole(const Communicator& world) {
    return {.world = world, .dp = world};
  }
};

/// @brief All flags up to this chapter, and training by them.
struct DataParallelProgram {
  train::TrainOptions train;                    ///< model, training, files
  memory::MemoryOptions memory;                 ///< recomputation, estimates
  collectives::CollectivesOptions collectives;  ///< ranks and links; measuring and simulating
  DataParallelOptions data_parallel;            ///< replicas and how they average gradients
  ServerOptions servers;                        ///< parameter servers, stragglers
  ScalingOptions scaling;                       ///< predictions of scaling
  ReplicaSize replica = {};                     ///< one rank here; later chapters split replicas

  /// @brief Adds all flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the flags against each other, but for those that only training needs, and
  /// settles the number of ranks.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate();

  /// @brief Checks what only training needs.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate_training() const;

  /// @brief Whether ranks beside the replicas keep the weights.
  [[nodiscard]] bool uses_servers() const { return servers.num_servers() > 0; }
  /// @brief Number of replicas.
  [[nodiscard]] int replicas() const;
  /// @brief All flags for the metrics file.
  [[nodiscard]] train::ExtraConfig config() const;

  /// @brief The passes of a replica, late in each step if it is the straggler.
  [[nodiscard]] train::ForwardBackward with_delay(train::ForwardBackward passes,
                                                  const Communicator& dp) const;

  /// @brief Trains as the flags say.
  /// @param extra_config  all flags of the executable, for the metrics file.
  /// @param change        of replicas that average their gradients; may be empty.
  /// Collective over ranks.world.
  [[nodiscard]] train::TrainResult train_on(const ReplicaRanks& ranks, nn::LayerFactory& factory,
                                            const train::ExtraConfig& extra_config,
                                            const ChangeReplica& change = {}) const;

  /// @brief The tables of a training on whole replicas; empty when it made no step.
  [[nodiscard]] std::string tables(const train::TrainResult& result) const;
};

}  // namespace ultra::data_parallel
