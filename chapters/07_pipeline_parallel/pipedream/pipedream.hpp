#pragma once
/// @file
/// PipeDream's asynchronous pipeline: a stage that makes an update after each backward pass, and the
/// weights that a micro-batch under way goes back with.
///
/// Source: Narayanan et al. 2019 (PipeDream), arXiv 1806.03377, sections 3.2 and 3.3.

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/nn/model.hpp"
#include "common/train/cli/step_config.hpp"
#include "common/train/rank_counters.hpp"
#include "common/train/step_observer.hpp"

namespace ultra::pipeline_parallel {

/// @brief Makes the updates that a rank's schedule calls U, of a rank alone in its data group: with
/// the gradients that the passes have made since the last one. None is left for the step's end.
///
/// Nobody waits for the norm: it does not clip, and the norm that it reports is that of all
/// updates' gradients together.
/// @param flags  that ask for it, for messages.
void update_in_passes(train::StepConfig& step_config, const std::string& flags);

/// The most versions of its weights that a rank had at a time.
inline constexpr std::string_view kPeakWeightVersions = "peak_weight_versions";

/// @brief Keeps the weights that a forward pass has read until its backward pass is over, while
/// updates go on between the two.
///
/// Memory: a copy of the weights per version that a micro-batch under way has read and that is not
/// the newest: on stage s of p at most min(p - s, m) versions in all.
/// Source: section 3.3: weight stashing, without vertical sync.
class WeightStash : public train::StepObserver {
 public:
  /// @param chunk     this rank's only one; outlives this.
  /// @param counters  gets kPeakWeightVersions.
  WeightStash(nn::Model& chunk, std::shared_ptr<train::RankCounters> counters);

  void action_begins(const train::Action& action) override;
  void action_ends(const train::Action& action) override;

 private:
  using Version = std::shared_ptr<const std::vector<Tensor>>;  // by parameter

  void load(const Version& version);
  void keep_newest();
  void count_versions();

  nn::Model& chunk_;
  std::shared_ptr<train::RankCounters> counters_;
  Version newest_;
  std::map<std::size_t, Version> read_;  // by micro-batch under way
  std::size_t peak_ = 0;
};

}  // namespace ultra::pipeline_parallel
