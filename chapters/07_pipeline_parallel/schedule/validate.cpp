#include "chapters/07_pipeline_parallel/schedule/validate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chapters/07_pipeline_parallel/schedule/live_activations.hpp"
#include "chapters/07_pipeline_parallel/schedule/messages.hpp"
#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::Action;
using train::ActionKind;

/// Which actions of a micro-batch and a chunk a rank has had.
struct Passed {
  bool forward = false;
  bool input = false;
  bool weights = false;
  bool update = false;
};

/// Reads the list of one rank.
class RankReader {
 public:
  RankReader(const PipelineSchedule& schedule, std::size_t stage)
      : schedule_(schedule),
        stage_(stage),
        chunks_(schedule.placement.chunks()),
        list_(schedule.ranks[stage]),
        passed_(schedule.micro_batches * chunks_) {}

  /// @param updates  whether every micro-batch ends in an update.
  void read(bool updates) {
    for (; at_ < list_.size(); ++at_) read(list_[at_]);
    for (std::size_t i = 0; i < passed_.size(); ++i) expect_whole(i, updates);
    for (const std::size_t index : schedule_.overlapped_on(stage_)) expect_pair(index);
  }

 private:
  void read(const Action& action) {
    if (action.micro_batch >= schedule_.micro_batches) {
      refuse(action, fmt::format("there are {} micro-batches, from 0 to {}",
                                 schedule_.micro_batches, schedule_.micro_batches - 1));
    }
    if (action.chunk >= chunks_) {
      refuse(action, fmt::format("a rank has {} chunks, from 0 to {}", chunks_, chunks_ - 1));
    }
    Passed& passed = passed_[action.micro_batch * chunks_ + action.chunk];
    switch (action.kind) {
      case ActionKind::kForward:
        return once(action, passed.forward);
      case ActionKind::kBackward:
        needs(action, passed.forward, "its forward pass");
        once(action, passed.input);
        return once(action, passed.weights);
      case ActionKind::kBackwardInput:
        needs(action, passed.forward, "its forward pass");
        return once(action, passed.input);
      case ActionKind::kBackwardWeight:
        needs(action, passed.input, "the B that makes what it works on");
        return once(action, passed.weights);
      case ActionKind::kUpdate:
        needs(action, passed.weights, "the gradients of its weights");
        once(action, passed.update);
        return expect_behind_whole_backward(action);
    }
  }

  void once(const Action& action, bool& has_been) const {
    if (has_been) refuse(action, "it has been done before");
    has_been = true;
  }

  void needs(const Action& action, bool is_there, const char* what) const {
    if (!is_there) refuse(action, fmt::format("{} must come first", what));
  }

  /// An update takes all gradients that there are, with the weights that its backward pass has
  /// read.
  void expect_behind_whole_backward(const Action& update) const {
    const Action backward{
        .kind = ActionKind::kBackward, .micro_batch = update.micro_batch, .chunk = update.chunk};
    if (list_[at_ - 1] == backward) return;
    refuse(update, fmt::format("an update stands right behind the whole backward pass of its "
                               "micro-batch, so write {} {}",
                               backward.str(), update.str()));
  }

  void expect_whole(std::size_t index, bool updates) const {
    const Passed& passed = passed_[index];
    const Action action{.micro_batch = index / chunks_, .chunk = index % chunks_};
    const std::string number = action.str().substr(1);
    const auto missing = [&](const char* what, const std::string& names) {
      throw ConfigError(fmt::format(
          "schedule {}, stage {}: micro-batch {} has no {} ({}). Every micro-batch passes every "
          "chunk of every stage, forward and backward.",
          schedule_.name, stage_, action.micro_batch, what, names));
    };
    if (!passed.forward) missing("forward pass", "F" + number);
    if (!passed.input) missing("backward pass", "B" + number + " or BW" + number);
    if (!passed.weights) missing("gradients of weights", "W" + number);
    if (updates && !passed.update) missing("update, but others have one", "U" + number);
  }

  void expect_pair(std::size_t index) const {
    const bool is_pair = index + 1 < list_.size() && list_[index].kind == ActionKind::kForward &&
                         list_[index + 1].kind == ActionKind::kBackward &&
                         (list_[index].micro_batch != list_[index + 1].micro_batch);
    if (is_pair) return;
    throw ConfigError(fmt::format(
        "schedule {}, stage {}, action {} of {}: only a forward pass and the whole backward "
        "pass of another micro-batch behind it can overlap.",
        schedule_.name, stage_, index + 1, list_.size()));
  }

  [[noreturn]] void refuse(const Action& action, const std::string& reason) const {
    throw ConfigError(fmt::format("schedule {}, stage {}, action {} of {}, {}: {}.", schedule_.name,
                                  stage_, at_ + 1, list_.size(), action.str(), reason));
  }

  const PipelineSchedule& schedule_;
  std::size_t stage_;
  std::size_t chunks_;
  const train::StepSchedule& list_;
  std::size_t at_ = 0;
  std::vector<Passed> passed_;  // by micro-batch and chunk
};

}  // namespace

void expect_valid(const PipelineSchedule& schedule) {
  if (schedule.ranks.size() != schedule.stages()) {
    throw ConfigError(fmt::format("schedule {} has lists for {} stages, but there are {}.",
                                  schedule.name, schedule.ranks.size(), schedule.stages()));
  }
  const bool updates = std::ranges::any_of(
      schedule.ranks, [](const auto& list) { return train::updates_between(list); });
  for (std::size_t stage = 0; stage < schedule.stages(); ++stage) {
    RankReader(schedule, stage).read(updates);
  }
  static_cast<void>(with_messages(schedule));
}

std::vector<std::size_t> peak_live_activations(const PipelineSchedule& schedule) {
  std::vector<std::size_t> peaks;
  for (const auto& list : schedule.ranks) peaks.push_back(peak_live_activations(list));
  return peaks;
}

}  // namespace ultra::pipeline_parallel
