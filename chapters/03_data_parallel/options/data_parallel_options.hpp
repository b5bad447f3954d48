#pragma once
/// @file
/// The command-line options of data parallelism.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/comm/collectives/collective_algorithms.hpp"
#include "common/optim/update_rule.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::data_parallel {

/// @brief When gradients are added up.
enum class GradientOverlap {
  kNone,          ///< after the backward pass
  kPerParameter,  ///< each as soon as it is ready
  kBucketed,      ///< each bucket as soon as it is full
};

/// @brief "none", "per-parameter" or "bucketed".
[[nodiscard]] std::string_view to_string(GradientOverlap overlap);

/// @brief How many replicas, and how they add up their gradients.
struct DataParallelOptions {
  std::optional<std::size_t> dp;  ///< --dp; absent: as many as the ranks allow
  GradientOverlap overlap = GradientOverlap::kBucketed;  ///< --overlap
  double bucket_mb = 0.25;              ///< --bucket-mb: 10^6 bytes of gradients per bucket
  std::string all_reduce = "pairwise";  ///< --all-reduce: the algorithm that adds up gradients
  std::string compress = "none";        ///< --compress: none, topk:F, int8, onebit or powersgd:R
  bool error_feedback = true;           ///< false with --no-error-feedback
  std::size_t compress_warmup = 0;      ///< --compress-warmup: uncompressed steps before
  std::size_t check_replicas = 0;       ///< --check-replicas: every so many steps; 0 means never

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the values and those against each other.
  /// @param optimizer  train::TrainOptions::optimizer.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate(std::string_view optimizer = optim::kDefaultRule) const;

  /// @brief Gives the setup the number of ranks that --dp and the other techniques' axes ask for.
  /// @throws ConfigError when --ranks or mpirun says something else, with the equation.
  void resolve_ranks(train::Setup& setup) const;

  /// @brief Elements of a bucket.
  [[nodiscard]] std::size_t bucket_capacity(DType dtype) const;

  /// @brief What --collectives ours means here: `all_reduce`, and for the rest the choice by size.
  ///
  /// The default adds in the order of the ranks, whatever the place of an element, so that all ways
  /// to cut the gradients up give the same bits.
  [[nodiscard]] std::shared_ptr<const comm::CollectiveAlgorithms> algorithms() const;

  /// @brief The exchange of gradients that the flags ask for.
  [[nodiscard]] std::unique_ptr<train::GradientExchange> make_exchange(
      const train::StatesScope& scope) const;

  /// @brief What AdamW's update becomes: with --compress-warmup, its second moments stay as they
  /// are from the first compressed step on.
  [[nodiscard]] optim::Rule rule(optim::Rule adamw) const;

  /// @brief These flags for the metrics file.
  [[nodiscard]] train::ExtraConfig config() const;
};

/// @brief Makes the run one of so many ranks.
/// @param asked  the flags that ask for them: "--dp 3".
/// @throws ConfigError when --ranks or mpirun says something else, with both numbers.
void ask_for_ranks(train::CommOptions& comm, std::size_t needed, const std::string& asked);

/// @brief Checks that each replica gets something of a global batch.
/// @throws ConfigError with the numbers.
void expect_work_for_all(std::size_t global_batch, int replicas);

}  // namespace ultra::data_parallel
