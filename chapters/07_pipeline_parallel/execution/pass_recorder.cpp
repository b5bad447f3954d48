#include "chapters/07_pipeline_parallel/execution/pass_recorder.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/07_pipeline_parallel/schedule/action_names.hpp"
#include "common/base/atomic_file.hpp"
#include "common/base/json.hpp"
#include "common/train/report/rank_clock.hpp"
#include "common/train/run/agree.hpp"
#include "common/train/run/text_messages.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::Action;

/// Whether this rank is at the beginning of every axis but that of the stages.
bool is_of_first_pipeline(const Mesh& mesh) {
  return std::ranges::all_of(mesh.shape().axes(), [&](const Axis& axis) {
    return axis.name == kAxis || mesh.along(axis.name).rank() == 0;
  });
}

/// The Gantt chart of the pipeline that rank 0 is in.
class GanttFile {
 public:
  GanttFile(const train::ModelScope& scope, const PipelineSchedule& schedule,
            const std::string& path)
      : world_(scope.context.world),
        stage_(scope.plan.mesh.along(kAxis).rank()),
        shown_(is_of_first_pipeline(scope.plan.mesh)),
        schedule_(schedule),
        zero_(train::common_moment(world_)) {
    train::agree(world_, [&] {
      if (world_.rank() == 0) file_.emplace(path, "Gantt chart (--executed-gantt)");
    });
  }

  void write(const ActionLog& log) {
    const std::vector<std::string> texts =
        train::gather_texts(world_, shown_ ? of_rank(log).dump() : "{}");
    train::agree(world_, [&] {
      if (!file_) return;
      file_->write(joined(texts).dump(1) + "\n");
      file_->commit();
    });
  }

 private:
  [[nodiscard]] double seconds(ActionLog::Clock::time_point moment) const {
    return std::chrono::duration<double>(moment - zero_).count();
  }

  [[nodiscard]] std::size_t part(std::size_t chunk) const {
    return schedule_.placement.part_at({.stage = static_cast<std::size_t>(stage_), .chunk = chunk});
  }

  [[nodiscard]] Json of_rank(const ActionLog& log) const {
    Json own = {{"actions", Json::array()}, {"costs", Json::array()}};
    for (const ExecutedAction& executed : log.actions()) {
      const Action& action = executed.action;
      own["actions"].push_back({{"stage", stage_},
                                {"action", action.str()},
                                {"kind", letters_of(action.kind)},
                                {"micro_batch", action.micro_batch},
                                {"part", part(action.chunk)},
                                {"begin", seconds(executed.begin)},
                                {"end", seconds(executed.end)}});
    }
    for (std::size_t chunk = 0; chunk < schedule_.placement.chunks(); ++chunk) {
      for (const auto& [kind, letters] : kActionNames) {
        own["costs"].push_back({letters, part(chunk), log.seconds(kind, chunk)});
      }
    }
    return own;
  }

  [[nodiscard]] Json joined(const std::vector<std::string>& texts) const {
    Json all = {{"schedule", schedule_.name},
                {"stages", schedule_.placement.stages()},
                {"chunks", schedule_.placement.chunks()},
                {"micro_batches", schedule_.micro_batches},
                {"unit", "s"},
                {"actions", Json::array()},
                {"costs", Json::object()}};
    for (const auto& [kind, letters] : kActionNames) {
      all["costs"][std::string(letters)] = std::vector<double>(schedule_.placement.parts(), 0.0);
    }
    for (const std::string& text : texts) {
      const Json own = Json::parse(text);
      if (own.empty()) continue;
      for (const Json& action : own["actions"].elements()) all["actions"].push_back(action);
      for (const Json& cost : own["costs"].elements()) {
        all["costs"][cost[0].get<std::string>()][cost[1].get<std::size_t>()] = cost[2];
      }
    }
    count_from_first(all["actions"]);
    return all;
  }

  static void count_from_first(Json& actions) {
    double first = std::numeric_limits<double>::max();
    for (const Json& action : actions.elements()) {
      first = std::min(first, action["begin"].get<double>());
    }
    for (Json& action : actions.elements()) {
      for (const char* moment : {"begin", "end"}) {
        action[moment] = action[moment].get<double>() - first;
      }
    }
  }

  Communicator world_;
  int stage_;
  bool shown_;
  const PipelineSchedule& schedule_;
  ActionLog::Clock::time_point zero_;
  std::optional<AtomicFile> file_;  // rank 0's
};

class PassRecorder : public train::StepObserver {
 public:
  PassRecorder(const train::ModelScope& scope, PipelineSchedule schedule,
               std::shared_ptr<ActionLog> log, const std::string& gantt)
      : context_(scope.context),
        counters_(scope.plan.counters),
        schedule_(std::move(schedule)),
        log_(std::move(log)) {
    if (!gantt.empty()) gantt_ = std::make_unique<GanttFile>(scope, schedule_, gantt);
  }

  void step_begins(const train::StepPlan&) override { log_->step_begins(); }

  void action_begins(const Action& action) override {
    log_->action_begins(action);
    waited_before_ = waited();
  }

  void action_ends(const Action& action) override {
    log_->action_ends(waited() - waited_before_ - log_->waited_for_input());
    const ExecutedAction& executed = log_->actions().back();
    context_.timeline.add_span("schedule", action.str(), executed.begin, executed.end);
  }

  void step_ends(const train::StepPlan& plan) override {
    count(kPeakActivations, log_->peaks().activations, told_.activations);
    count(kPeakInputs, log_->peaks().inputs, told_.inputs);
    if (gantt_ && plan.step == context_.options.steps) gantt_->write(*log_);
  }

 private:
  [[nodiscard]] double waited() const { return context_.world.stats().exposed_seconds; }

  /// A counter adds up: so it gets what a peak has risen by.
  void count(std::string_view name, std::size_t peak, std::size_t& told) {
    counters_->add(name, static_cast<double>(peak - told));
    told = peak;
  }

  const train::RunContext& context_;
  std::shared_ptr<train::RankCounters> counters_;
  PipelineSchedule schedule_;
  std::shared_ptr<ActionLog> log_;
  std::unique_ptr<GanttFile> gantt_;
  LivePeaks told_;
  double waited_before_ = 0;
};

}  // namespace

std::unique_ptr<train::StepObserver> record_passes(const train::ModelScope& scope,
                                                   PipelineSchedule schedule,
                                                   std::shared_ptr<ActionLog> log,
                                                   const std::string& gantt) {
  return std::make_unique<PassRecorder>(scope, std::move(schedule), std::move(log), gantt);
}

}  // namespace ultra::pipeline_parallel
