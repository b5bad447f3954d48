#include "common/train/plan.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/numeric.hpp"

namespace ultra::train {

Plan make_plan(const TrainOptions& options, const Communicator& ranks, const MeshShape& shape,
               const PlanRules& rules) {
  Mesh mesh(ranks, shape);
  const Communicator& replicas = mesh.along(kReplicaAxis);
  const LocalBatch share{
      .sequences = rules.share(options.global_batch, replicas),
      .largest = ceil_div(options.global_batch, checked_cast<std::size_t>(replicas.size())),
      .seq_len = options.model.max_seq_len,
      .global_tokens = static_cast<double>(options.global_batch * options.model.max_seq_len)};
  RankGroups groups;
  std::vector<std::string_view> add_up;
  for (const Axis& axis : mesh.shape().axes()) {
    if (axis.splits == Splits::kBatch || axis.splits == Splits::kTokens)
      add_up.push_back(axis.name);
  }
  groups.add(std::string(nn::kDataGroup), mesh.group(add_up));
  std::vector<MicroBatch> micro_batches = rules.cut(share, options.micro_batch);
  StepSchedule schedule = rules.schedule(micro_batches.size());
  TokenPlan tokens;
  if (options.doc_length > 0) tokens.documents.emplace(options.seed, options.doc_length);
  return {.mesh = std::move(mesh),
          .in_step = ranks,
          .groups = std::move(groups),
          .share = share,
          .chunks = {nn::StageSpec::whole(options.model)},
          .micro_batches = std::move(micro_batches),
          .schedule = std::move(schedule),
          .tokens = std::move(tokens)};
}

bool Plan::counts_loss() const {
  return std::ranges::all_of(mesh.shape().axes(), [this](const Axis& axis) {
    return axis.splits != Splits::kMatrices || mesh.along(axis.name).rank() == 0;
  });
}

}  // namespace ultra::train
