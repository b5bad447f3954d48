#pragma once
/// @file
/// Chapter 03 as a technique: replicas of the model, each with its share of the batch.
///
/// | part of training | becomes                                              | where                                 |
/// |------------------|------------------------------------------------------|---------------------------------------|
/// | the global batch | N shares, in as many micro-batches each              | batch_shares                          |
/// | gradients        | views of buckets, in the order of the backward pass  | bucket_assignment, bucketed_gradients |
/// | a gradient       | complete after the last action that adds to it       | gradient_completion                   |
/// | a bucket         | leaves when it and those before it are complete      | bucket_queue, bucketed_gradients      |
/// | what travels     | the bucket's sum over the replicas, or a message     | bucket_exchange, compression/         |

#include <memory>
#include <optional>
#include <string>

#include "chapters/03_data_parallel/options/data_parallel_options.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::data_parallel {

/// @brief --dp and how replicas add up their gradients.
class DataParallel : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override;
  void validate(train::Setup& setup) override;
  void check_ranks(train::Setup& setup) override;
  void validate_training(const train::Setup& setup) const override;
  [[nodiscard]] std::vector<train::Conflict> conflicts_with_recording(
      const train::Setup& setup) const override;
  [[nodiscard]] train::ExtraConfig config(const train::Setup& setup) const override;
  void name_algorithms(train::AlgorithmNames& names) const override;
  void configure_step(train::StepConfig& step_config, const train::Setup& setup) const override;
  [[nodiscard]] std::vector<train::UnsavedState> states_that_are_not_saved() const override;
  [[nodiscard]] std::string table(const train::Setup& setup,
                                  const train::TrainResult& result) const override;

  /// @brief Its flags.
  [[nodiscard]] const DataParallelOptions& options() const { return options_; }

 private:
  DataParallelOptions options_;
};

/// @brief The technique of this chapter.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

/// @brief The flags of this chapter in a program that has it.
[[nodiscard]] const DataParallelOptions& options_of(const train::Setup& setup);

/// @brief One line per rank: bytes sent, seconds of computation, of communication, and of the part of
/// the communication that the rank waited for.
///
/// Communication counts while at least one operation is under way; it is hidden while the rank
/// computes.
[[nodiscard]] std::string format_communication_table(const train::TrainResult& result);

}  // namespace ultra::data_parallel
