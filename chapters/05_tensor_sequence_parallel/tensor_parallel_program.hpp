#pragma once
/// @file
/// What this chapter's executable does, for it and for those of later chapters.

#include <functional>
#include <string>
#include <vector>

#include "chapters/04_zero/zero_program.hpp"
#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_options.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_options.hpp"
#include "common/comm/mesh.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::tensor_parallel {

/// @brief The ranks of tp that hold the same copies of parameters, for each number of copies there is.
/// @param num_kv_heads  of the model.
/// Collective over tp.
[[nodiscard]] std::vector<Communicator> copy_groups(const Communicator& tp,
                                                    std::size_t num_kv_heads);

/// @brief What the ranks of a mesh dp x tp are to each other, and how they complete their gradients.
/// @param num_kv_heads  of the model.
/// @param shards        neighbours along dp that share one copy of a part's states: ZeRO. 1 if none do.
/// Collective over the mesh.
[[nodiscard]] data_parallel::ReplicaRanks replica_ranks(const Mesh& mesh, std::size_t num_kv_heads,
                                                        int shards);

/// @brief All flags up to this chapter, and training by them.
struct TensorParallelProgram {
  zero::ZeroProgram base;                 ///< chapter 04's
  TensorParallelOptions tensor_parallel;  ///< how matrices are split
  TpScalingOptions scaling;               ///< predictions of throughput over tp

  /// @brief Adds all flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the flags against each other, but for those that only training needs, and
  /// settles the number of ranks.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate();

  /// @brief Checks what only training needs.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate_training() const;

  /// @brief All flags for the metrics file.
  [[nodiscard]] train::ExtraConfig config() const;

  /// @brief The answer to --estimate.
  [[nodiscard]] std::string estimate() const;

  /// @brief The answer to --shapes. Runs a block on tp ranks of this process.
  [[nodiscard]] std::string shapes() const;

  /// @brief dp x tp.
  [[nodiscard]] MeshShape mesh_shape() const;

  /// @brief Trains as the flags say.
  /// Collective over world.
  [[nodiscard]] train::TrainResult train_on(const Communicator& world, nn::LayerFactory& factory,
                                            const train::ExtraConfig& extra_config) const;

  /// @brief The tables of a training; empty when it made no step.
  [[nodiscard]] std::string tables(const train::TrainResult& result) const;
};

}  // namespace ultra::tensor_parallel
