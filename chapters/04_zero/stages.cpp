#include "chapters/04_zero/stages.hpp"

#include <utility>

#include "chapters/04_zero/whole_matrices/whole_matrices.hpp"
#include "common/base/errors.hpp"

namespace ultra::zero {
namespace {

/// What this rank owns of the groups, and speaks for unless it has a copy of the first ones' shards.
std::vector<train::OwnedPiece> owned_pieces(const std::vector<ParameterGroup>& groups,
                                            const ShardGroups& ranks) {
  const bool is_first_copy = !ranks.replicas || ranks.replicas->rank() == 0;
  std::vector<train::OwnedPiece> pieces;
  for (const ParameterGroup& group : groups) {
    for (const Piece& piece : group.pieces(ranks.shards.rank())) {
      const nn::Parameter* parameter = group.parameters[piece.tensor];
      const bool is_owner = is_first_copy && parameter->is_owner();
      pieces.push_back({parameter, piece.elements, is_owner, is_owner});
    }
  }
  return pieces;
}

}  // namespace

ShardedModel::ShardedModel(const ShardedScope& scope, std::vector<ParameterGroup> groups,
                           ShardGroups ranks, const OffloadSettings& offload)
    : ModelStates(scope.data_group, owned_pieces(groups, ranks)),
      ranks_(std::move(ranks)),
      groups_(std::move(groups)) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const Piece& piece : groups_[g].pieces(ranks_.shards.rank())) {
      sites_.push_back({.group = g, .elements = piece.place});
    }
  }
  const nn::Parameter& like = *groups_.front().parameters.front();
  offloaded_ = offload_states(offload, pieces(), *scope.optimizer.rule, like, scope.precision);
  std::unique_ptr<optim::MatrixExchange> whole;
  if (scope.optimizer.rule->needs_whole(optim::WeightKind::kMatrix)) {
    whole = std::make_unique<WholeMatrices>(matrices_in(groups_, shards()), shards(),
                                            scope.optimizer.whole);
  }
  update_by(
      train::make_optimizer(scope.optimizer, pieces(),
                            offloaded_ ? offloaded_store(offloaded_) : nullptr, std::move(whole)),
      masters_of(pieces(), scope.precision, offloaded_));
}

Tensor ShardedModel::weights(std::size_t piece) {
  const auto& [group, elements] = site(piece);
  return own_shard(whole_.at(group), shards()).slice(0, elements);
}

void ShardedModel::share_weights() {
  for (const Tensor& array : whole_) {
    shards().labeled("weights").all_gather(own_shard(array, shards()), array).wait();
  }
}

void ShardedModel::step_ended(train::RankMeter& meter) {
  if (offloaded_) meter.storage_used(offloaded_->use());
}

void ShardedModel::conclude(train::RankMeter& meter) {
  if (offloaded_) offloaded_->settle();
  step_ended(meter);
}

ShardedScope ShardedScope::whole(nn::Model& model, train::StepSchedule schedule) {
  ShardedScope scope;
  scope.chunks = {&model};
  scope.parameters = model.parameters();
  scope.schedule = std::move(schedule);
  return scope;
}

std::unique_ptr<ShardedModel> shard_model(const ShardedScope& scope, const ShardGroups& ranks,
                                          const ZeroSettings& settings) {
  ensure(settings.stage == ZeroStage::kParameters || !settings.offload.offloads_parameters(),
         "weights that every rank keeps as a whole are not offloaded");
  ensure(settings.cut == ShardCut::kFlat ||
             (!settings.offload.offloads_parameters() && settings.plus_plus == ZeroPlusPlus{}),
         "rows stay on the device, and travel as they are");
  switch (settings.stage) {
    case ZeroStage::kNone:
      break;
    case ZeroStage::kOptimizer:
      return zero1(scope, ranks, settings);
    case ZeroStage::kGradients:
      return zero2(scope, ranks, settings);
    case ZeroStage::kParameters:
      return zero3(scope, ranks, settings);
  }
  throw InternalError("a model that is sharded has a stage from 1 to 3");
}

}  // namespace ultra::zero
