#pragma once
/// @file
/// The plainest training, made of no chapter's parts, and trainings with their final weights.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/train/cli/run_techniques.hpp"

namespace ultra::test {

/// @brief F0 BW0 F1 BW1 ...
[[nodiscard]] train::StepSchedule one_after_the_other(std::size_t micro_batches);

/// @brief Micro-batches of a size; the last takes what is left.
[[nodiscard]] std::vector<train::MicroBatch> cut_evenly(const train::LocalBatch& share,
                                                        std::size_t micro_batch);

/// @brief Equal shares of the batch, one micro-batch after the other; when all have passed, each
/// gradient is added up over the ranks.
[[nodiscard]] std::unique_ptr<train::Technique> plain_training();

/// What a test puts into a step, behind everything else.
using Put = std::function<void(train::StepConfig&)>;

/// @brief Calls `fn` where each step of a rank begins.
[[nodiscard]] Put before_each_step(
    std::function<void(const train::StepPlan&, const train::ModelScope&)> fn);

/// @brief What a test puts into a step, as a technique; an empty function puts nothing.
[[nodiscard]] std::unique_ptr<train::Technique> putting(Put put);

/// @brief The flags of a run of these techniques, settled, as a program has them.
/// @param ranks  that train; mpirun may have started others beside.
/// @param flags  separated by spaces.
/// @throws what the techniques refuse.
[[nodiscard]] train::Setup setup_of(const train::TrainOptions& options, int ranks,
                                    train::Techniques techniques, const std::string& flags = "");

/// @brief What one rank had at the end of a training.
struct RankRun {
  train::TrainResult result;
  std::vector<std::vector<double>> weights;  ///< of each parameter of the whole model
  std::vector<std::vector<double>> own;      ///< of each piece that this rank updates
  std::vector<double> written;  ///< how often each element of `weights` would be in files
};

/// @brief Trains on the ranks of `world`, and puts together the weights that they would write.
/// Collective; each rank gives a setup of its own.
[[nodiscard]] RankRun run_of(train::Setup setup, const Communicator& world);

/// @brief A quiet plain_training() on one rank.
[[nodiscard]] train::TrainResult train_quietly(const train::TrainOptions& options,
                                               const Put& put = {});

}  // namespace ultra::test
