#include "chapters/04_zero/stages.hpp"

#include <utility>

#include "chapters/04_zero/whole_matrices/whole_matrices.hpp"
#include "common/base/errors.hpp"
#include "common/train/weights/frozen_weights.hpp"

namespace ultra::zero {
namespace {

std::vector<train::OwnedPiece> pieces_of(const std::vector<ParameterGroup>& groups,
                                         const ShardGroups& ranks,
                                         std::vector<train::OwnedPiece> frozen) {
  std::vector<train::OwnedPiece> pieces = owned_pieces(groups, ranks);
  pieces.insert(pieces.end(), frozen.begin(), frozen.end());
  return pieces;
}

}  // namespace

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

std::vector<train::OwnedPiece> frozen_pieces(const std::vector<ParameterGroup>& units,
                                             const ShardGroups& ranks) {
  std::vector<train::OwnedPiece> pieces = owned_pieces(units, ranks);
  std::erase_if(pieces,
                [](const train::OwnedPiece& piece) { return !piece.parameter->is_frozen(); });
  return pieces;
}

std::vector<PieceSite> weight_sites(const std::vector<ParameterGroup>& units, int rank) {
  std::vector<PieceSite> trained;
  std::vector<PieceSite> frozen;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    for (const Piece& piece : units[unit].pieces(rank)) {
      const bool is_frozen = units[unit].parameters[piece.tensor]->is_frozen();
      (is_frozen ? frozen : trained).push_back({.group = unit, .elements = piece.place});
    }
  }
  trained.insert(trained.end(), frozen.begin(), frozen.end());
  return trained;
}

std::vector<train::OwnedPiece> kept_as_wholes(const std::vector<nn::Parameter*>& parameters,
                                              const Communicator& dp) {
  std::vector<train::OwnedPiece> pieces;
  for (const nn::Parameter* parameter : parameters) {
    const bool is_owner = dp.rank() == 0 && parameter->is_owner();
    pieces.push_back({parameter, {0, parameter->count()}, is_owner, is_owner});
  }
  return pieces;
}

ShardedModel::ShardedModel(const ShardedScope& scope, std::vector<ParameterGroup> groups,
                           std::vector<train::OwnedPiece> frozen, ShardGroups ranks,
                           const OffloadSettings& offload)
    : ModelStates(scope.data_group, pieces_of(groups, ranks, std::move(frozen))),
      ranks_(std::move(ranks)),
      groups_(std::move(groups)),
      sites_(weight_sites(groups_, ranks_.shards.rank())) {
  const std::vector<train::OwnedPiece> trained = trained_pieces();
  const nn::Parameter& like = *scope.parameters.front();
  offloaded_ = offload_states(offload, trained, *scope.optimizer.rule, like, scope.precision);
  std::unique_ptr<optim::MatrixExchange> whole;
  if (scope.optimizer.rule->needs_whole(optim::WeightKind::kMatrix)) {
    whole = std::make_unique<WholeMatrices>(matrices_in(groups_, shards()), shards(),
                                            scope.optimizer.whole, scope.matrices_at_once);
  }
  update_by(
      train::make_optimizer(scope.optimizer, trained,
                            offloaded_ ? offloaded_store(offloaded_) : nullptr, std::move(whole)),
      masters_of(pieces(), scope.precision, offloaded_));
}

void ShardedModel::keep_whole_weights(const std::vector<nn::Parameter*>& parameters) {
  whole_ = whole_weights(groups_);
  for (nn::Parameter* parameter : train::frozen(parameters)) {
    const Tensor value = Tensor::empty(parameter->device(), parameter->shape(), parameter->dtype(),
                                       MemoryCategory::kParameters);
    parameter->initial_values_into(value);
    parameter->set_value(value);
  }
}

Tensor ShardedModel::weights(std::size_t piece) {
  if (piece >= sites_.size()) return pieces()[piece].parameter->value();  // frozen, and whole
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
