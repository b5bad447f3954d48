#include "chapters/11_five_d/planner/search/layout_search.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "common/base/interrupt.hpp"

namespace ultra::planner {
namespace {

using pipeline_parallel::ScheduleChoice;
using pipeline_parallel::ScheduleKind;
using zero::ZeroStage;

std::vector<std::size_t> divisors(std::size_t value) {
  std::vector<std::size_t> all;
  for (std::size_t i = 1; i * i <= value; ++i) {
    if (value % i != 0) continue;
    all.push_back(i);
    if (i != value / i) all.push_back(value / i);
  }
  std::ranges::sort(all);
  return all;
}

std::vector<ScheduleChoice> schedules_for(const Workload& work, const SearchSpace& space,
                                          std::size_t pp) {
  if (pp == 1) return {{}};
  std::vector<ScheduleChoice> all;
  const std::size_t layers = work.model.shape().num_layers;
  for (const ScheduleKind kind : space.schedules) {
    if (!ScheduleChoice{.kind = kind}.takes_chunks()) {
      all.push_back({.kind = kind});
      continue;
    }
    for (const std::size_t chunks : divisors(layers / pp)) {
      if (chunks == 1 || layers % pp != 0) continue;
      all.push_back({.kind = kind, .interleaved_chunks = chunks});
    }
  }
  return all;
}

std::vector<ZeroStage> stages_for(const SearchSpace& space, const Layout& layout) {
  std::vector<ZeroStage> stages = {ZeroStage::kNone};
  if (layout.dp * layout.cp == 1) return stages;
  for (const ZeroStage stage : zero::kZeroStages) {
    const bool exchanges_often = stage > ZeroStage::kOptimizer && layout.pp > 1;
    if (stage > ZeroStage::kNone && stage <= space.most_zero && !exchanges_often) {
      stages.push_back(stage);
    }
  }
  return stages;
}

std::vector<std::size_t> expert_ranks(const Workload& work, const Layout& layout) {
  if (!work.model.has_experts()) return {1};
  std::vector<std::size_t> all;
  for (const std::size_t ep : divisors(work.model.layers.moe.num_experts)) {
    if (layout.dp * layout.cp % ep == 0) all.push_back(ep);
  }
  return all;
}

/// The methods of cp that can deal the heads out.
void for_each_method(const Workload& work, Layout layout,
                     const std::function<void(const Layout&)>& visit) {
  using context_parallel::ContextMethod;
  constexpr std::array kMethods = {ContextMethod::kAllGather, ContextMethod::kRing,
                                   ContextMethod::kUlysses};
  for (const ContextMethod method : kMethods) {
    if (method != ContextMethod::kAllGather && layout.cp == 1) break;
    layout.context_method = method;
    if (!why_impossible(work, layout)) visit(layout);
  }
}

/// All choices but the mesh's.
void for_each_choice(const Workload& work, const SearchSpace& space, Layout layout,
                     const std::function<void(const Layout&)>& visit) {
  for (const std::size_t ep : expert_ranks(work, layout)) {
    layout.ep = ep;
    for (const std::size_t size : space.micro_batches) {
      layout.micro_batch = size;
      for (const ScheduleChoice& schedule : schedules_for(work, space, layout.pp)) {
        layout.schedule = schedule;
        if (why_impossible(work, layout)) continue;
        throw_if_interrupted();
        for (const ZeroStage stage : stages_for(space, layout)) {
          layout.zero = stage;
          for (const memory::Recompute mode : space.recomputations) {
            layout.recompute = mode;
            for_each_method(work, layout, visit);
          }
        }
      }
    }
  }
}

/// Whether the mesh itself can work, so that its many choices are worth a look.
bool sensible_mesh(const Workload& work, const SearchSpace& space, const Layout& layout) {
  if (layout.tp > space.most_tp || layout.cp > space.most_cp) return false;
  if (layout.cp > 1 && work.seq_len / layout.cp < space.least_context) return false;
  return layout.pp <= work.model.shape().num_layers && work.global_batch % layout.dp == 0;
}

/// A layout that fits, and its step by the closed form, which is quick.
struct Candidate {
  Layout layout;
  double seconds = 0;
  double least = 0;  // that the simulator can make of it
};

/// The simulator takes less than a fifth off the closed form, and nothing but bubble and messages.
double least_seconds(const StepSeconds& step) {
  constexpr double kLeastOfClosedForm = 0.8;
  const double waiting = (step.bubble + step.messages) / (step.total() - step.stragglers);
  return step.total() * std::max(kLeastOfClosedForm, 1 - waiting);
}

/// What fits, in the order in which it was visited.
class Fitting {
 public:
  Fitting(const Question& question, SearchResult& result) : question_(question), result_(result) {}

  void add(const Layout& layout) {
    const std::size_t parallel = layout.tp * layout.pp;
    std::size_t& smallest = result_.smallest_model_parallel;
    smallest = smallest == 0 ? parallel : std::min(smallest, parallel);
    const StepSeconds step = predict(question_, layout, PipelineTime::kClosedForm).step;
    all_.push_back({layout, step.total(), least_seconds(step)});
  }

  /// Predicts those wholly that can be among the best, the quickest first.
  void take_best(std::size_t count) {
    std::ranges::stable_sort(all_, {}, &Candidate::seconds);
    const auto seconds = [](const Prediction& one) { return one.step.total(); };
    std::vector<Prediction>& best = result_.best;
    for (const Candidate& one : all_) {
      if (best.size() == count && one.least >= seconds(best.back())) continue;
      throw_if_interrupted();
      Prediction prediction = predict(question_, one.layout);
      const auto place = std::ranges::upper_bound(best, seconds(prediction), {}, seconds);
      best.insert(place, std::move(prediction));
      if (best.size() > count) best.pop_back();
    }
  }

 private:
  const Question& question_;
  SearchResult& result_;
  std::vector<Candidate> all_;
};

/// What may stay in the host's memory of a layout that is too large: activations, the optimizer's
/// states, which a sharded optimizer is needed for, or both.
std::vector<Layout> offloaded_layouts(const Software& software, const SearchSpace& space,
                                      const Layout& layout) {
  std::vector<Layout> all;
  if (!space.offloads) return all;
  Layout activations = layout;
  activations.offload_activations = true;
  Layout optimizer = layout;
  optimizer.offload = true;
  optimizer.zero = std::max(layout.zero, ZeroStage::kOptimizer);
  Layout both = optimizer;
  both.offload_activations = true;
  if (software.offloads_activations) all.push_back(activations);
  all.push_back(optimizer);
  if (software.offloads_activations) all.push_back(both);
  return all;
}

}  // namespace

void for_each_layout(const Workload& work, const SearchSpace& space,
                     const std::function<void(const Layout&)>& visit) {
  for (const std::size_t tp : divisors(space.gpus)) {
    for (const std::size_t cp : divisors(space.gpus / tp)) {
      for (const std::size_t pp : divisors(space.gpus / tp / cp)) {
        const Layout mesh{.dp = space.gpus / tp / cp / pp,
                          .pp = pp,
                          .cp = cp,
                          .tp = tp,
                          .sequence_parallel = tp > 1,
                          .precision = space.precision,
                          .outermost = space.outermost};
        if (sensible_mesh(work, space, mesh)) for_each_choice(work, space, mesh, visit);
      }
    }
  }
}

SearchResult search_layouts(const Question& question, const SearchSpace& space, std::size_t count) {
  SearchResult result;
  Fitting fitting(question, result);
  double least_missing = std::numeric_limits<double>::infinity();
  const auto missing_bytes = [&](const Layout& layout) {
    return largest_stage(question, layout).total() - question.cluster.gpu.memory_bytes;
  };
  for_each_layout(question.work, space, [&](const Layout& layout) {
    ++result.possible;
    const double missing = missing_bytes(layout);
    if (missing <= 0) {
      fitting.add(layout);
      return;
    }
    ++result.too_large;
    if (missing < least_missing) result.nearly = {layout};
    least_missing = std::min(least_missing, missing);
    for (const Layout& offloaded : offloaded_layouts(question.software, space, layout)) {
      if (missing_bytes(offloaded) > 0) continue;
      fitting.add(offloaded);
      break;
    }
  });
  fitting.take_best(count);
  return result;
}

}  // namespace ultra::planner
