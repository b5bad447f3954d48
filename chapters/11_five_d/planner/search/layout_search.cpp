#include "chapters/11_five_d/planner/search/layout_search.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "chapters/11_five_d/planner/rank_placement.hpp"
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

/// Whether one of the asked schedules is this one.
bool names(const std::vector<AskedSchedule>& asked, const ScheduleChoice& schedule) {
  return std::ranges::any_of(asked, [&](const AskedSchedule& one) {
    return one.kind == schedule.kind && (!one.chunks || *one.chunks == schedule.chunks());
  });
}

/// Numbers of chunks, more than one, into which a rank's blocks divide: all blocks, or all but the two
/// whose place the tables take, as in Llama 3's 126 blocks on 128 chunks.
std::vector<std::size_t> even_chunks(std::size_t layers, std::size_t pp, bool tables_fill_chunks) {
  std::vector<std::size_t> all;
  for (const std::size_t places : {layers, layers + 2}) {
    if (places % pp != 0 || (places > layers && !tables_fill_chunks)) continue;
    for (const std::size_t chunks : divisors(places / pp)) {
      if (chunks > 1) all.push_back(chunks);
    }
  }
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

/// Kinds that are searched: those asked for, or the space's.
std::vector<ScheduleKind> kinds_of(const SearchSpace& space) {
  if (space.only.schedules.empty()) return space.schedules;
  std::vector<ScheduleKind> kinds;
  for (const AskedSchedule& asked : space.only.schedules) {
    if (std::ranges::find(kinds, asked.kind) == kinds.end()) kinds.push_back(asked.kind);
  }
  return kinds;
}

std::vector<ScheduleChoice> schedules_for(const Workload& work, const SearchSpace& space,
                                          std::size_t pp) {
  if (pp == 1) return {{}};
  std::vector<ScheduleChoice> all;
  const std::size_t layers = work.model.shape().num_layers;
  const auto add = [&](const ScheduleChoice& schedule) {
    const std::vector<AskedSchedule>& asked = space.only.schedules;
    if (!asked.empty() && !names(asked, schedule)) return;
    if (!names(space.only.without_schedules, schedule)) all.push_back(schedule);
  };
  for (const ScheduleKind kind : kinds_of(space)) {
    if (!ScheduleChoice{.kind = kind}.takes_chunks()) {
      add({.kind = kind});
      continue;
    }
    for (const std::size_t chunks : even_chunks(layers, pp, space.tables_fill_chunks)) {
      add({.kind = kind, .interleaved_chunks = chunks});
    }
  }
  return all;
}

std::vector<ZeroStage> stages_for(const SearchSpace& space, const Layout& layout) {
  const std::vector<ZeroStage>& asked = space.only.zero;
  std::vector<ZeroStage> stages;
  for (const ZeroStage stage : zero::kZeroStages) {
    const bool exchanges_often = stage > ZeroStage::kOptimizer && layout.pp > 1;
    const bool not_worth = asked.empty() && (stage > space.most_zero || exchanges_often);
    const bool alone = stage > ZeroStage::kNone && layout.dp * layout.cp == 1;
    const bool left_out =
        std::ranges::find(space.only.without_zero, stage) != space.only.without_zero.end();
    if (!not_worth && !alone && !left_out && allows(asked, stage)) stages.push_back(stage);
  }
  return stages;
}

/// Copies of the states: one, and one for each node; or for each group of as many ranks as asked for.
std::vector<std::size_t> copies_for(const SearchSpace& space, const Layout& layout) {
  const std::size_t ranks = layout.dp * layout.cp;
  std::vector<std::size_t> all;
  for (const std::size_t asked : space.only.hybrid_shard) {
    if (layout.zero != ZeroStage::kNone && ranks % asked == 0) all.push_back(ranks / asked);
  }
  if (!space.only.hybrid_shard.empty()) return all;
  all.push_back(1);
  if (!space.hybrid || layout.zero != ZeroStage::kParameters) {
    return all;
  }
  const std::size_t here = placement_of(layout, PlanAxis::kData, space.node).per_node;
  if (here > 1 && here < ranks && ranks % here == 0) all.push_back(ranks / here);
  return all;
}

std::vector<std::size_t> expert_ranks(const Workload& work, const std::vector<std::size_t>& asked,
                                      const Layout& layout) {
  if (!work.model.has_experts()) return {1};
  std::vector<std::size_t> all;
  for (const std::size_t ep : divisors(work.model.layers.moe.num_experts)) {
    if (layout.dp * layout.cp % ep == 0 && allows(asked, ep)) all.push_back(ep);
  }
  return all;
}

/// The methods of cp that can deal the heads out.
void for_each_method(const Workload& work,
                     const std::vector<context_parallel::ContextMethod>& asked, Layout layout,
                     const std::function<void(const Layout&)>& visit) {
  using context_parallel::ContextMethod;
  constexpr std::array kMethods = {ContextMethod::kAllGather, ContextMethod::kRing,
                                   ContextMethod::kUlysses};
  for (const ContextMethod method : kMethods) {
    if (method != ContextMethod::kAllGather && layout.cp == 1) break;
    if (layout.cp > 1 && !allows(asked, method)) continue;
    layout.context_method = method;
    if (!why_impossible(work, layout)) visit(layout);
  }
}

void for_each_recomputation(const Workload& work, const SearchSpace& space, Layout layout,
                            const std::function<void(const Layout&)>& visit) {
  for (const memory::Recompute mode : space.recomputations) {
    if (!allows(space.only.recompute, mode)) continue;
    layout.recompute = mode;
    for_each_method(work, space.only.methods, layout, visit);
  }
}

/// All choices but the mesh's.
void for_each_choice(const Workload& work, const SearchSpace& space, Layout layout,
                     const std::function<void(const Layout&)>& visit) {
  for (const std::size_t ep : expert_ranks(work, space.only.ep, layout)) {
    layout.ep = ep;
    for (const std::size_t size :
         space.only.micro_batch.empty() ? space.micro_batches : space.only.micro_batch) {
      layout.micro_batch = size;
      for (const ScheduleChoice& schedule : schedules_for(work, space, layout.pp)) {
        layout.schedule = schedule;
        if (why_impossible(work, layout)) continue;
        throw_if_interrupted();
        for (const ZeroStage stage : stages_for(space, layout)) {
          layout.zero = stage;
          for (const std::size_t copies : copies_for(space, layout)) {
            layout.copies = copies;
            for_each_recomputation(work, space, layout, visit);
          }
          layout.copies = 1;
        }
      }
    }
  }
}

/// Whether the mesh itself can work, so that its many choices are worth a look.
bool sensible_mesh(const Workload& work, const SearchSpace& space, const Layout& layout) {
  const Restriction& only = space.only;
  if (!allows(only.dp, layout.dp) || !allows(only.pp, layout.pp) || !allows(only.cp, layout.cp) ||
      !allows(only.tp, layout.tp)) {
    return false;
  }
  if (only.tp.empty() && layout.tp > space.most_tp) return false;
  if (only.cp.empty() && layout.cp > 1 &&
      (layout.cp > space.most_cp || work.seq_len / layout.cp < space.least_context)) {
    return false;
  }
  return layout.pp <= work.model.shape().num_layers && work.global_batch % layout.dp == 0;
}

/// The orders of ranks, without one that leaves all groups where they are.
std::vector<Outermost> orders_for(const SearchSpace& space, Layout mesh) {
  std::vector<Outermost> all;
  std::vector<std::array<replay::GroupPlacement, 2>> places;
  for (const Outermost order : space.orders) {
    mesh.outermost = order;
    const std::array groups = {placement_of(mesh, PlanAxis::kData, space.node),
                               placement_of(mesh, PlanAxis::kPipeline, space.node)};
    if (std::ranges::find(places, groups) != places.end()) continue;
    places.push_back(groups);
    all.push_back(order);
  }
  return all;
}

/// Whether tokens are split between the matrices: as asked, or wherever there is tp.
std::vector<bool> splits_for(const SearchSpace& space, const Layout& mesh) {
  const std::vector<bool>& asked = space.only.sequence_parallel;
  return mesh.tp == 1 || asked.empty() ? std::vector<bool>{mesh.tp > 1} : asked;
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
    result_.near = static_cast<std::size_t>(std::ranges::count_if(all_, [&](const Candidate& one) {
      return one.seconds <= (1 + kTypicalError) * all_.front().seconds;
    }));
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
  if (!space.offloads || space.only.without_offload) return all;
  Layout activations = layout;
  activations.offload_activations = true;
  Layout optimizer = layout;
  optimizer.offload = true;
  optimizer.zero = std::max(layout.zero, ZeroStage::kOptimizer);
  Layout both = optimizer;
  both.offload_activations = true;
  if (software.offloads_activations) all.push_back(activations);
  if (!software.offloads_optimizer || optimizer.zero > software.most_zero ||
      !allows(space.only.zero, optimizer.zero)) {
    return all;
  }
  all.push_back(optimizer);
  if (software.offloads_activations) all.push_back(both);
  return all;
}

/// Of what is asked about, that which a program has.
SearchSpace of_software(SearchSpace space, const Software& software) {
  space.most_zero = std::min(space.most_zero, software.most_zero);
  space.tables_fill_chunks = software.tables_fill_chunks;
  for (const ZeroStage stage : zero::kZeroStages) {
    if (stage > software.most_zero) space.only.without_zero.push_back(stage);
  }
  if (software.schedules.empty()) return space;
  space.schedules = software.schedules;
  for (const ScheduleChoice& schedule : pipeline_parallel::all_schedules()) {
    if (std::ranges::find(software.schedules, schedule.kind) != software.schedules.end()) continue;
    space.only.without_schedules.push_back({.kind = schedule.kind});
  }
  return space;
}

}  // namespace

void for_each_layout(const Workload& work, const SearchSpace& space,
                     const std::function<void(const Layout&)>& visit) {
  for (const std::size_t tp : divisors(space.gpus)) {
    for (const std::size_t cp : divisors(space.gpus / tp)) {
      for (const std::size_t pp : divisors(space.gpus / tp / cp)) {
        Layout mesh{.dp = space.gpus / tp / cp / pp,
                    .pp = pp,
                    .cp = cp,
                    .tp = tp,
                    .precision = space.precision};
        if (!sensible_mesh(work, space, mesh)) continue;
        for (const Outermost order : orders_for(space, mesh)) {
          mesh.outermost = order;
          for (const bool split : splits_for(space, mesh)) {
            mesh.sequence_parallel = split;
            for_each_choice(work, space, mesh, visit);
          }
        }
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
  const SearchSpace offered = of_software(space, question.software);
  for_each_layout(question.work, offered, [&](const Layout& layout) {
    ++result.possible;
    const double missing = missing_bytes(layout);
    if (missing <= 0) {
      fitting.add(layout);
      return;
    }
    ++result.too_large;
    if (missing < least_missing) result.nearly = {layout};
    least_missing = std::min(least_missing, missing);
    for (const Layout& offloaded : offloaded_layouts(question.software, offered, layout)) {
      if (missing_bytes(offloaded) > 0) continue;
      fitting.add(offloaded);
      break;
    }
  });
  fitting.take_best(count);
  return result;
}

}  // namespace ultra::planner
