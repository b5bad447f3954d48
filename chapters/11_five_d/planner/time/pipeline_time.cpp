#include "chapters/11_five_d/planner/time/pipeline_time.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"

namespace ultra::planner {
namespace {

using pipeline_parallel::ScheduleKind;

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
  const ScheduleKind kind = costs.schedule.kind;
  return !costs.until_the_end &&
         (kind == ScheduleKind::kZeroBubbleH2 || kind == ScheduleKind::kZbV);
}

double simulated_seconds(const PipelineCosts& costs, std::size_t micro_batches) {
  const auto schedule =
      pipeline_parallel::make_schedule(costs.schedule, costs.stages, micro_batches);
  const auto step = pipeline_parallel::simulate(
      schedule, {.parts = costs.parts, .link = costs.link, .message_bytes = 1});
  return counts_longest_span(costs) ? step.longest_span() : step.seconds();
}

double full_or_continued(const PipelineCosts& costs) {
  const std::size_t p = costs.stages;
  const std::size_t m = costs.micro_batches;
  if (m <= 4 * p) return simulated_seconds(costs, m);
  const std::size_t less = 3 * p + m % p;
  const double first = simulated_seconds(costs, less);
  const double more = simulated_seconds(costs, less + p) - first;
  return first + more * static_cast<double>((m - less) / p);
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
