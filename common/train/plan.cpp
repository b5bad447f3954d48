#include "common/train/plan.hpp"

#include <string>

#include "common/base/numeric.hpp"

namespace ultra::train {

Plan make_plan(const TrainOptions& options, const Communicator& ranks, const MeshShape& shape,
               const PlanRules& rules) {
  Mesh mesh(ranks, shape);
  const auto replicas = checked_cast<std::size_t>(mesh.shape().dp);
  const BatchShare share{
      .sequences = rules.share(options.global_batch, mesh.dp()),
      .largest = ceil_div(options.global_batch, replicas),
      .seq_len = options.model.max_seq_len,
      .global_tokens = static_cast<double>(options.global_batch * options.model.max_seq_len)};
  RankGroups groups;
  groups.add(std::string(nn::kDataGroup), mesh.group({MeshDim::kDp, MeshDim::kCp}));
  std::vector<MicroBatch> micro_batches = rules.cut(share, options.micro_batch);
  StepSchedule schedule = rules.schedule(micro_batches.size());
  TokenPlan tokens;
  if (options.doc_length > 0) tokens.documents.emplace(options.seed, options.doc_length);
  return {.mesh = std::move(mesh),
          .groups = std::move(groups),
          .share = share,
          .chunks = {nn::StageSpec::whole(options.model)},
          .micro_batches = std::move(micro_batches),
          .schedule = std::move(schedule),
          .tokens = std::move(tokens)};
}

}  // namespace ultra::train
