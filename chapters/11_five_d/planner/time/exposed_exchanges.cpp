#include "chapters/11_five_d/planner/time/exposed_exchanges.hpp"

#include <algorithm>

#include "chapters/02_collectives/cost/exchange_price.hpp"
#include "chapters/06_context_parallel/cost/ring_overlap.hpp"
#include "chapters/08_expert_parallel/cost/dispatch_cost.hpp"
#include "chapters/11_five_d/planner/memory/stage_parameters.hpp"
#include "chapters/11_five_d/planner/rank_placement.hpp"
#include "common/base/numeric.hpp"

namespace ultra::planner {
namespace {

using context_parallel::ContextMethod;

/// Bytes of so many features of the rank's tokens, in its part of the heads.
double bytes_of(const Question& question, const Layout& layout, double features) {
  const double tokens = real(layout.micro_batch * question.work.seq_len) / real(layout.cp);
  return real(memory::activation_element_bytes(layout.precision)) * tokens * features /
         real(layout.tp);
}

double key_features(const Question& question, const Layout& layout) {
  const memory::TransformerShape& shape = question.work.model.shape();
  return real(std::max(shape.kv_hidden_size(), layout.tp * shape.head_dim()));
}

replay::GroupPlacement group_of(const Question& question, const Layout& layout, PlanAxis axis) {
  return placement_of(layout, axis, static_cast<std::size_t>(question.cluster.gpus_per_node));
}

/// Backward, the last hop of the gradients is hidden by nothing.
WaitSeconds ring_waits(const Question& question, const Layout& layout,
                       const replay::GroupPlacement& cp, const WaitSeconds& attention) {
  const double bytes = bytes_of(question, layout, 2 * key_features(question, layout));
  const double transfer = question.cluster.intra.latency * (cp.nodes == 1 ? 1 : 0) +
                          question.cluster.inter.latency * (cp.nodes == 1 ? 0 : 1) +
                          bytes / collectives::ring_bandwidth(question.cluster, cp);
  const double steps = real(layout.cp);
  const auto exposed = [&](double forward, double backward) {
    return context_parallel::predict_ring(
               static_cast<int>(layout.cp),
               {.forward = forward / steps, .backward = backward / steps, .transfer = transfer})
        .exposed;
  };
  const double both = exposed(attention.forward, attention.backward);
  const double forward = (steps - 1) * std::max(0.0, transfer - attention.forward / steps);
  return {.forward = forward, .backward = both - forward};
}

/// Copies of a token's row that leave for a node: one for each expert that it chose, or, where the
/// node deals it out, one for each node that has some of them.
double copies_of_token(const Question& question, const replay::GroupPlacement& ep) {
  const ModelShape& model = question.work.model;
  const std::size_t chosen = model.layers.moe.top_k;
  if (!question.software.sends_once_per_node) return real(chosen);
  const std::size_t of_node = model.layers.moe.num_experts / ep.nodes;
  const bool limited = model.most_nodes > 0 && model.most_nodes * of_node >= chosen;
  return expert_parallel::expected_nodes(limited ? std::min(ep.nodes, model.most_nodes) : ep.nodes,
                                         of_node, chosen);
}

}  // namespace

WaitSeconds context_waits(const Question& question, const Layout& layout,
                          const WaitSeconds& attention) {
  if (layout.cp == 1) return {};
  const replay::GroupPlacement cp = group_of(question, layout, PlanAxis::kContext);
  const double keys = key_features(question, layout);
  switch (layout.context_method) {
    case ContextMethod::kRing:
      return ring_waits(question, layout, cp, attention);
    case ContextMethod::kUlysses: {
      const double queries = question.work.model.attention_width();
      const double bytes = bytes_of(question, layout, 2 * queries + 2 * keys);
      const double exchange = collectives::all_to_all_seconds(question.cluster, cp, bytes, bytes);
      return {.forward = exchange, .backward = exchange};
    }
    default: {
      const double whole = real(layout.cp) * bytes_of(question, layout, 2 * keys);
      const double gather = collectives::gather_seconds(question.cluster, cp, whole);
      const double sum_of_gradients = gather;  // a ring's reduce-scatter is as long
      return {.forward = gather, .backward = gather + sum_of_gradients};
    }
  }
}

WaitSeconds expert_waits(const Question& question, const Layout& layout,
                         const WaitSeconds& passes) {
  if (layout.ep == 1) return {};
  const replay::GroupPlacement ep = group_of(question, layout, PlanAxis::kExpert);
  const double element = real(memory::activation_element_bytes(layout.precision));
  const double row = bytes_of(question, layout, real(question.work.model.shape().hidden_size));
  const auto exchange = [&](double of_element) {
    const double copy = of_element / element * row;
    return collectives::all_to_all_seconds(question.cluster, ep,
                                           copy * real(question.work.model.layers.moe.top_k),
                                           copy * copies_of_token(question, ep));
  };
  const double one_way = exchange(question.software.fp8_products ? 1 : element) + exchange(element);
  const bool hidden =
      question.software.overlaps_experts && micro_batches_of(question.work, layout) > 1;
  const double beside = hidden ? (passes.forward + passes.backward) / 2 : 0;
  const double exposed = std::max(0.0, one_way - beside);
  return {.forward = exposed, .backward = exposed};
}

WaitSeconds host_waits(const Question& question, const Layout& layout, bool experts,
                       const WaitSeconds& passes) {
  if (!layout.offload_activations) return {};
  const double seconds =
      kept_bytes(question.work, layout, question.software, layout.recompute, experts) /
      question.cluster.host_bandwidth;
  return {.forward = std::max(0.0, seconds - passes.forward),
          .backward = std::max(0.0, seconds - passes.backward)};
}

}  // namespace ultra::planner
