#include "chapters/11_five_d/planner/time/pipeline_time.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"

namespace ultra::planner {
namespace {

/// A pipeline in whole numbers: a cost is so many ten-thousandths of all of them.
using Key = std::vector<std::size_t>;

constexpr double kSteps = 10'000;
constexpr std::size_t kMostKept = 100'000;

/// Pipelines that were simulated, and their seconds in units of all costs.
class Kept {
 public:
  template <class Simulate>
  double get(const Key& key, const Simulate& simulate) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = seconds_.find(key); found != seconds_.end()) return found->second;
    if (seconds_.size() >= kMostKept) seconds_.clear();
    return seconds_.emplace(key, simulate()).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<Key, double> seconds_;
};

bool counts_longest_span(const PipelineCosts& costs) {
  return !costs.until_the_end && costs.schedule.row().counts_span;
}

/// What ranks do, whatever it costs.
struct Listed {
  pipeline_parallel::ScheduleChoice choice;
  pipeline_parallel::PipelineSchedule schedule;
  pipeline_parallel::InstructionLists lists;

  Listed(const PipelineCosts& costs, std::size_t micro_batches)
      : choice(costs.schedule),
        schedule(pipeline_parallel::make_schedule(choice, costs.stages, micro_batches)),
        lists(pipeline_parallel::with_messages(schedule)) {}

  [[nodiscard]] bool is_of(const PipelineCosts& costs, std::size_t micro_batches) const {
    return choice == costs.schedule && schedule.stages() == costs.stages &&
           schedule.micro_batches == micro_batches;
  }
};

/// The last one is kept: a search asks for many costs of one schedule in turn.
const Listed& listed(const PipelineCosts& costs, std::size_t micro_batches) {
  thread_local std::unique_ptr<const Listed> last;
  if (!last || !last->is_of(costs, micro_batches)) {
    last = std::make_unique<const Listed>(costs, micro_batches);
  }
  return *last;
}

pipeline_parallel::SimulatedStep simulated(const PipelineCosts& costs, std::size_t micro_batches) {
  const Listed& ranks = listed(costs, micro_batches);
  return pipeline_parallel::simulate(
      ranks.schedule, ranks.lists, {.parts = costs.parts, .link = costs.link, .message_bytes = 1});
}

double seconds_of(const PipelineCosts& costs, const pipeline_parallel::SimulatedStep& step) {
  return counts_longest_span(costs) ? step.longest_span() : step.seconds();
}

/// What a rank does for a micro-batch, or a message that leaves.
struct Event {
  std::size_t kind = 0;
  std::size_t part = 0;
  std::size_t micro_batch = 0;
  double time = 0;
};

/// All that one rank does, or that one link carries, in order.
using Track = std::vector<Event>;

std::vector<Track> tracks_of(const pipeline_parallel::SimulatedStep& step) {
  std::vector<Track> tracks;
  for (const auto& rank : step.ranks) {
    Track& track = tracks.emplace_back();
    for (const auto& [action, part, begin, end] : rank.actions) {
      track.push_back({static_cast<std::size_t>(action.kind), part, action.micro_batch, begin});
    }
  }
  std::map<std::pair<std::size_t, std::size_t>, Track> links;
  for (const auto& sent : step.messages) {
    links[{sent.from, sent.to}].push_back({static_cast<std::size_t>(sent.message.content),
                                           sent.message.part, sent.message.micro_batch, sent.left});
  }
  for (auto& [ends, track] : links) tracks.push_back(std::move(track));
  return tracks;
}

/// A full pipeline does again what it did so many micro-batches before.
struct Beat {
  std::size_t micro_batches = 1;
  double seconds = 0;
};

/// Where in a track a micro-batch first appears.
std::size_t begin_of(const Track& track, std::size_t micro_batch) {
  const auto found = std::ranges::find(track, micro_batch, &Event::micro_batch);
  return static_cast<std::size_t>(found - track.begin());
}

/// Whether a track does between two micro-batches' begins what it did `beat` micro-batches before.
/// @param seconds  that have passed since: set by the first event, and the same for all.
bool repeats(const Track& track, std::size_t first, std::size_t last, std::size_t beat,
             std::optional<double>& seconds) {
  const std::size_t begin = begin_of(track, first);
  const std::size_t end = begin_of(track, last);
  const std::size_t back = begin - begin_of(track, first - beat);
  for (std::size_t i = begin; i < end; ++i) {
    const Event& now = track[i];
    const Event& before = track[i - back];
    const double passed = now.time - before.time;
    const bool same = now.kind == before.kind && now.part == before.part &&
                      now.micro_batch == before.micro_batch + beat;
    if (!same || passed != seconds.value_or(passed)) return false;
    seconds = passed;
  }
  return true;
}

/// Schedules have at most 2 p micro-batches under way: of more nothing depends, so as many are
/// looked at before the pipeline begins to drain.
std::optional<Beat> beat_of(const PipelineCosts& costs, std::size_t micro_batches,
                            const pipeline_parallel::SimulatedStep& step) {
  const std::vector<Track> tracks = tracks_of(step);
  const std::size_t last = micro_batches - 2 * costs.stages;
  const std::size_t first = last - 2 * costs.stages;
  for (std::size_t beat = 1; beat <= std::min(first, 2 * costs.stages); ++beat) {
    std::optional<double> seconds;
    const bool all = std::ranges::all_of(
        tracks, [&](const Track& track) { return repeats(track, first, last, beat, seconds); });
    if (all && seconds) return Beat{.micro_batches = beat, .seconds = *seconds};
  }
  return {};
}

/// From one state of a full pipeline follows the next. So once it repeats itself it does so until it
/// drains; before that, more of it is simulated, in the end all of it.
double full_or_continued(const PipelineCosts& costs) {
  const std::size_t p = costs.stages;
  const std::size_t m = costs.micro_batches;
  for (std::size_t some = 6 * p + m % p; 2 * some <= m; some += some / p * p) {
    const auto step = simulated(costs, some);
    const auto beat = beat_of(costs, some, step);
    if (!beat) continue;
    const std::size_t rest = (m - some) % beat->micro_batches;
    const double first = seconds_of(costs, rest == 0 ? step : simulated(costs, some + rest));
    const std::size_t beats = (m - some) / beat->micro_batches;
    return first + beat->seconds * static_cast<double>(beats);
  }
  return seconds_of(costs, simulated(costs, m));
}

/// Calls visit with each cost that can be rounded.
template <class Costs, class Visit>
void for_each_cost(Costs& costs, const Visit& visit) {
  for (auto& part : costs.parts) {
    visit(part.forward);
    visit(part.backward_input);
    visit(part.backward_weight);
  }
  visit(costs.link.latency);
  visit(costs.link.seconds_per_byte);
}

}  // namespace

double pipeline_seconds(const PipelineCosts& costs) {
  static Kept kept;
  double sum = 0;
  for_each_cost(costs, [&](double cost) { sum += cost; });
  if (sum == 0) return 0;
  const double unit = sum / kSteps / static_cast<double>(costs.parts.size());
  Key key = {static_cast<std::size_t>(costs.schedule.kind), costs.schedule.chunks(), costs.stages,
             costs.micro_batches, costs.until_the_end ? std::size_t{1} : std::size_t{0}};
  PipelineCosts rounded = costs;
  for_each_cost(rounded, [&](double& cost) {
    key.push_back(static_cast<std::size_t>(std::llround(cost / unit)));
    cost = static_cast<double>(key.back());
  });
  return unit * kept.get(key, [&] { return full_or_continued(rounded); });
}

}  // namespace ultra::planner
