#include "chapters/06_context_parallel/cost/method_cost.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "chapters/02_collectives/simulator/link_simulator.hpp"
#include "chapters/06_context_parallel/cost/ring_overlap.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::context_parallel {
namespace {

using collectives::Topology;

constexpr double kBackwardOverForward = 2.5;  // 5 products against 2

/// Groups of neighbours, or of every ulysses-th rank.
struct Grouping {
  int size;    // members of each
  int stride;  // between neighbours of one

  [[nodiscard]] comm::Group of(int rank) const {
    const int first = rank / (size * stride) * (size * stride) + rank % stride;
    comm::Group group;
    for (int member = 0; member < size; ++member) group.ranks.push_back(first + member * stride);
    group.rank = (rank - first) / stride;
    return group;
  }
};

/// As many whole nodes as the ranks fill; a smaller node where they do not fill one.
Topology machine_of(const MethodQuestion& question) {
  Topology machine = question.node;
  if (question.cp <= machine.gpus_per_node) {
    machine.nics_per_node = std::min(machine.nics_per_node, question.cp);
    machine.gpus_per_node = question.cp;
    machine.nodes = 1;
  } else {
    machine.nodes = question.cp / machine.gpus_per_node;
  }
  machine.validate();
  return machine;
}

double seconds_of(OpKind op, const char* algorithm, std::size_t count, const Grouping& groups,
                  const MethodQuestion& question) {
  if (groups.size == 1) return 0;
  const Topology machine = machine_of(question);
  return collectives::simulate(
             machine, question.element_bytes,
             [&](int rank) {
               return collectives::find_algorithm(op, algorithm)
                   .schedule(collectives::CollectiveRequest::of(
                       op, groups.of(rank), count, {.ranks_per_node = machine.gpus_per_node}));
             })
      .seconds;
}

/// Elements of a rank's keys and values.
std::size_t pair_elements(const MethodQuestion& q) {
  return 2 * q.batch * ceil_div(q.seq_len, static_cast<std::size_t>(q.cp)) * q.kv_heads *
         q.head_dim;
}

/// Seconds of a rank's forward pass, half of all pairs.
double forward_seconds(const MethodQuestion& q) {
  const auto tokens = static_cast<double>(q.seq_len);
  const double flop = 2 * static_cast<double>(q.batch * q.heads * q.head_dim) * tokens * tokens;
  return flop / q.cp / q.flops;
}

/// Exchanges of query, key, value and output, and of their gradients.
double exchange_seconds(const MethodQuestion& q, const MethodChoice& choice) {
  const Grouping neighbours{.size = choice.ulysses, .stride = 1};
  const auto ranks = static_cast<std::size_t>(choice.ulysses);
  const std::size_t tokens = q.batch * ceil_div(q.seq_len, static_cast<std::size_t>(q.cp));
  const auto of = [&](std::size_t heads) {
    const std::size_t part = tokens * heads * q.head_dim / ranks;
    return seconds_of(OpKind::kAllToAll, "pairwise", ranks * part, neighbours, q);
  };
  return 4 * (of(q.heads) + of(q.kv_heads));
}

MethodCost gathered(const MethodQuestion& q, double forward) {
  const Grouping all{.size = q.cp, .stride = 1};
  const std::size_t count = pair_elements(q) * static_cast<std::size_t>(q.cp);
  const double gather = seconds_of(OpKind::kAllGather, "ring", count, all, q);
  const double scatter = seconds_of(OpKind::kReduceScatter, "ring", count, all, q);
  return {.choice = {.method = ContextMethod::kAllGather, .cp = q.cp},
          .compute = (1 + kBackwardOverForward) * forward,
          .communication = 2 * gather + scatter,
          .exposed = 2 * gather + scatter};
}

/// A ring of groups of neighbours; of single ranks, and of one group, too.
MethodCost on_a_ring(const MethodQuestion& q, const MethodChoice& choice, double forward) {
  const int ring = choice.ring();
  const Grouping across{.size = ring, .stride = choice.ulysses};
  // A ring's all-gather is ring - 1 shifts of one member's array.
  const double shifts = seconds_of(OpKind::kAllGather, "ring",
                                   pair_elements(q) * static_cast<std::size_t>(ring), across, q);
  const RingTimes times = predict_ring(ring, {.forward = forward / ring,
                                              .backward = kBackwardOverForward * forward / ring,
                                              .transfer = ring == 1 ? 0 : shifts / (ring - 1)});
  const double exchange = exchange_seconds(q, choice);
  return {.choice = choice,
          .compute = times.compute,
          .communication = times.communication + exchange,
          .exposed = times.exposed + exchange};
}

void validate(const MethodQuestion& question) {
  if (question.cp < 1)
    throw ConfigError(fmt::format("cp is {}. It must be at least 1.", question.cp));
  if (question.seq_len < static_cast<std::size_t>(question.cp)) {
    throw ConfigError(
        fmt::format("a sequence of {} tokens leaves some of {} ranks without any. "
                    "Choose a longer sequence or fewer ranks.",
                    question.seq_len, question.cp));
  }
  const int gpus = question.node.gpus_per_node;
  if (question.cp > gpus && question.cp % gpus != 0) {
    throw ConfigError(
        fmt::format("{} ranks fill no whole nodes of {}: {} % {} = {}. Choose a multiple.",
                    question.cp, gpus, question.cp, gpus, question.cp % gpus));
  }
}

}  // namespace

std::vector<MethodCost> method_costs(const MethodQuestion& question) {
  validate(question);
  const double forward = forward_seconds(question);
  std::vector<MethodCost> costs = {
      on_a_ring(question, {.method = ContextMethod::kRing, .cp = question.cp}, forward),
      gathered(question, forward)};
  for (int ulysses = question.cp; ulysses > 1; --ulysses) {
    const auto ranks = static_cast<std::size_t>(ulysses);
    if (question.cp % ulysses != 0 || question.heads % ranks != 0 ||
        question.kv_heads % ranks != 0) {
      continue;
    }
    const auto method =
        ulysses == question.cp ? ContextMethod::kUlysses : ContextMethod::kUlyssesRing;
    costs.push_back(
        on_a_ring(question, {.method = method, .cp = question.cp, .ulysses = ulysses}, forward));
  }
  return costs;
}

const MethodCost& fastest(const std::vector<MethodCost>& costs) {
  return *std::ranges::min_element(costs, {}, &MethodCost::total);
}

}  // namespace ultra::context_parallel
