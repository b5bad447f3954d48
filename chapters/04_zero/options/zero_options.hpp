#pragma once
/// @file
/// The command-line options of ZeRO.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "chapters/03_data_parallel/options/data_parallel_options.hpp"
#include "chapters/04_zero/stages.hpp"
#include "chapters/04_zero/zero_memory.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_options.hpp"
#include "common/comm/collectives/collective_algorithms.hpp"
#include "common/tensor/dtype.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::zero {

/// @brief What is sharded over the replicas, and when what is gathered.
struct ZeroOptions {
  ZeroStage stage = ZeroStage::kNone;       ///< --zero
  std::optional<ShardCut> cut;              ///< --shards; absent: flat
  std::optional<DType> gather;              ///< --gather-dtype; absent: the weights' own type
  std::optional<std::size_t> prefetch;      ///< --prefetch; absent: 1
  std::optional<Reshard> reshard;           ///< --reshard-after-forward; absent: yes
  std::optional<std::size_t> node_size;     ///< --hybrid-shard; absent: one copy on all ranks
  std::string reduce_scatter = "pairwise";  ///< --reduce-scatter: the algorithm
  std::optional<std::size_t> muon_batch;    ///< --muon-batch; absent: all matrices at once
  ZeroPlusPlusOptions plus_plus;            ///< --zero++ and --node-size

  /// @brief Adds the flags to a command line. Chapter 03's are there already.
  void add_to(CLI::App& app);

  /// @brief Checks the values, and that no flag is given that another one makes meaningless.
  /// @param data_parallel  chapter 03's flags, validated.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate(const data_parallel::DataParallelOptions& data_parallel) const;

  /// @brief Checks that --gather-dtype is narrower than the weights.
  /// @param weights  their type.
  /// @throws ConfigError that says what does not fit and what to do.
  void expect_narrower(DType weights) const;

  /// @brief What these flags do not go together with.
  [[nodiscard]] std::vector<train::Conflict> conflicts(
      const data_parallel::DataParallelOptions& data_parallel) const;

  /// @brief Checks that nodes of --hybrid-shard make up the replicas of a training, and share something;
  /// and that those of --node-size do.
  /// @throws ConfigError with the equation.
  void expect_nodes_of(int replicas) const;

  /// @brief False with --zero 0: then everything is as in chapter 03.
  [[nodiscard]] bool shards() const { return stage != ZeroStage::kNone; }

  /// @brief How the ranks share the model's states out.
  [[nodiscard]] Sharding sharding(int replicas) const;

  /// @brief How a model is sharded; only when shards().
  [[nodiscard]] ZeroSettings settings(const data_parallel::DataParallelOptions& data_parallel,
                                      DType dtype) const;

  /// @brief What --collectives ours means here: chapter 03's all-reduce and this reduce-scatter.
  [[nodiscard]] std::shared_ptr<const comm::CollectiveAlgorithms> algorithms(
      const data_parallel::DataParallelOptions& data_parallel) const;

  /// @brief These flags for the metrics file.
  [[nodiscard]] train::ExtraConfig config(
      const data_parallel::DataParallelOptions& data_parallel) const;

 private:
  [[nodiscard]] ZeroPlusPlusContext plus_plus_context() const;

  bool bucket_mb_given_ = false;
};

}  // namespace ultra::zero
