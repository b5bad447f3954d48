#pragma once
/// @file
/// The command-line options of pipeline parallelism, and the schedule that they ask for.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"
#include "chapters/07_pipeline_parallel/stages/stage_split.hpp"
#include "common/nn/model_config.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/options/options.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::pipeline_parallel {

/// @brief How many stages a model is cut into, and in which order micro-batches pass them.
struct PipelineOptions {
  std::size_t pp = 1;                             ///< --pp
  ScheduleChoice schedule;                        ///< --schedule, unless it is searched for
  bool searches = false;                          ///< --schedule search
  std::optional<std::size_t> search_activations;  ///< --search-activations
  std::string schedule_file;                      ///< --schedule-file; empty means none
  std::optional<std::size_t> micro_batches;       ///< --micro-batches
  StageSplit split;                               ///< --stage-split
  std::string gantt;                              ///< --executed-gantt; empty means none
  bool gives_micro_batch = false;                 ///< whether --micro-batch is given, too

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Whether the model is cut, or the one rank follows a schedule that was asked for.
  [[nodiscard]] bool has_schedule() const {
    return pp > 1 || schedule_given_ || !schedule_file.empty();
  }
  /// @brief The schedule's name: "1f1b", "search", or a file's.
  [[nodiscard]] std::string schedule_name() const;
  /// @brief The flags that ask for all this: "--pp 2 --schedule 1f1b".
  [[nodiscard]] std::string flags() const;
  /// @brief These flags for the metrics file.
  [[nodiscard]] train::ExtraConfig config() const;

  /// @brief Checks the values against each other.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate() const;

  /// @brief Makes --micro-batch what --micro-batches asks for, when it is given.
  /// @param replicas  that share the global batch.
  /// @throws ConfigError with the numbers when the batch cannot be cut so, or when --micro-batch
  /// was given and says something else.
  void cut_batch(train::TrainOptions& train, std::size_t replicas) const;

 private:
  bool schedule_given_ = false;
  bool split_given_ = false;
};

/// @brief Sequences of a micro-batch, for so many of them: the last one may have fewer.
/// @param share  sequences of a replica.
/// @throws ConfigError that names the numbers of micro-batches on both sides that work.
[[nodiscard]] std::size_t micro_batch_size(std::size_t share, std::size_t micro_batches);

/// @brief What the stages do in a step: a published schedule, one that is searched for, or one from
/// a file; checked, whoever has written its lists.
///
/// A search takes the parts' costs from operations_of(), with layers dealt out evenly and free
/// links: the same on every rank, without communication. It looks for no more parts than there are
/// layers, or numbers in --stage-split.
/// @throws ConfigError when there is none for so many stages and micro-batches, with what to
/// change.
[[nodiscard]] PipelineSchedule chosen_schedule(const PipelineOptions& options,
                                               const nn::ModelConfig& model,
                                               std::size_t micro_batches);

}  // namespace ultra::pipeline_parallel
