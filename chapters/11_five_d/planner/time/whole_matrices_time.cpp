#include "chapters/11_five_d/planner/time/whole_matrices_time.hpp"

#include <algorithm>

#include "chapters/02_collectives/cost/exchange_price.hpp"
#include "chapters/11_five_d/planner/rank_placement.hpp"
#include "common/base/numeric.hpp"
#include "common/optim/newton_schulz.hpp"
#include "common/replay/prices.hpp"
#include "common/replay/product_time.hpp"

namespace ultra::planner {
namespace {

constexpr std::size_t kBytes = 4;  // directions are in fp32

double newton_schulz_seconds(const replay::GpuType& gpu, std::size_t rows, std::size_t columns) {
  const double m = real(std::min(rows, columns));
  const double n = real(std::max(rows, columns));
  const double peak = replay::peak_flops(gpu, kBytes);
  double seconds = 0;
  for (const replay::ProductShape& shape :
       {replay::ProductShape{.m = m, .k = n, .n = m}, replay::ProductShape{.m = m, .k = m, .n = m},
        replay::ProductShape{.m = m, .k = m, .n = n}}) {
    seconds += replay::product_seconds(gpu, shape, real(kBytes), peak);
  }
  return real(optim::NewtonSchulz{}.steps) * seconds;
}

/// Of the matrices of one block.
double seconds_of_block(const Question& question, bool experts) {
  const memory::TransformerShape& s = question.work.model.shape();
  const expert_parallel::MoeConfig& moe = question.work.model.layers.moe;
  const auto of = [&](std::size_t rows, double times) {
    return times * newton_schulz_seconds(question.cluster.gpu, rows, s.hidden_size);
  };
  const double attention = of(s.hidden_size, 2) + of(s.kv_hidden_size(), 2);
  if (!experts) {
    return attention + of(s.ffn_hidden_size, s.kind == memory::BlockKind::kGpt ? 2 : 3);
  }
  return attention + of(moe.num_experts, 1) +
         of(moe.expert_ffn, 3 * real(moe.num_experts + moe.shared_experts));
}

double there_and_back(const Question& question, const replay::GroupPlacement& group,
                      double elements) {
  if (group.ranks == 1) return 0;
  const double lacking = real(kBytes) * elements * real(group.ranks - 1) / real(group.ranks);
  return 2 * collectives::all_to_all_seconds(question.cluster, group, lacking, lacking);
}

}  // namespace

double whole_matrices_seconds(const Question& question, const Layout& layout,
                              const StageParameters& held, const replay::GroupPlacement& sharing) {
  if (!optim::needs_whole_matrices(question.work.optimizer)) return 0;
  const ModelShape& model = question.work.model;
  const double blocks = real(model.shape().num_layers) / real(layout.pp);
  const double mixed = model.has_experts()
                           ? real(model.shape().num_layers - model.layers.dense_blocks) /
                                 real(model.shape().num_layers)
                           : 0;
  const double all = blocks * ((1 - mixed) * seconds_of_block(question, false) +
                               (mixed > 0 ? mixed * seconds_of_block(question, true) : 0));
  const auto node = static_cast<std::size_t>(question.cluster.gpus_per_node);
  const double own = (held.matrices + held.experts) / real(sharing.ranks);
  return all / real(layout.tp * sharing.ranks) + there_and_back(question, sharing, own) +
         there_and_back(question, placement_of(layout, PlanAxis::kTensor, node), own);
}

}  // namespace ultra::planner
