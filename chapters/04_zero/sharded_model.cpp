#include "chapters/04_zero/sharded_model.hpp"

#include <optional>
#include <utility>

#include "chapters/03_data_parallel/bucketed_gradients.hpp"
#include "chapters/04_zero/offload/offloaded_unit.hpp"
#include "chapters/04_zero/shards/gradient_shards.hpp"
#include "chapters/04_zero/shards/own_shard.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/shards/sharded_unit.hpp"
#include "chapters/04_zero/shards/whole_weights.hpp"
#include "chapters/04_zero/unit_uses.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_parts.hpp"
#include "chapters/04_zero/zero_step.hpp"
#include "common/base/errors.hpp"
#include "common/train/weights/master_weights.hpp"

namespace ultra::zero {
namespace {

/// A piece of a group's parameter that this rank owns, and where it stands in the rank's shard.
struct ShardPiece {
  std::size_t group;
  Range place;
};

/// The states of the pieces, outside the device's memory if they are to be; master weights, which are
/// states of the optimizer, among them.
std::shared_ptr<OffloadedStates> make_states(const OffloadSettings& settings,
                                             const std::vector<train::OwnedPiece>& pieces,
                                             const nn::Parameter& like, bool has_masters) {
  if (settings.what == Offload::kNone) return nullptr;
  std::vector<std::size_t> counts;
  for (const train::OwnedPiece& piece : pieces) counts.push_back(piece.elements.size());
  using Weights = OffloadedLayout::Weights;
  auto states = std::make_shared<OffloadedStates>(
      settings, counts, like.device(), accumulation_dtype(like.dtype()),
      settings.offloads_parameters() || has_masters ? Weights::kStored : Weights::kStay);
  for (std::size_t i = 0; has_masters && i < pieces.size(); ++i) {
    const Range& elements = pieces[i].elements;
    const Tensor initial =
        Tensor::empty(like.device(), {elements.size()}, accumulation_dtype(like.dtype()));
    pieces[i].parameter->initial_values_into(initial, elements.begin);
    states->write_weights(states->layout().elements_of(i), initial);
  }
  return states;
}

/// What the three stages have in common: which pieces this rank owns, and the optimizer's step on
/// them.
class ShardPieces : public ShardedModel {
 public:
  ShardPieces(const ShardedScope& scope, std::vector<ParameterGroup> groups, ShardGroups ranks,
              const OffloadSettings& offload)
      : data_group_(scope.data_group), ranks_(std::move(ranks)), groups_(std::move(groups)) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const Piece& piece : pieces_of(groups_[g].layout, ranks_.shards.rank())) {
        pieces_.push_back(
            {.parameter = groups_[g].parameters[piece.tensor], .elements = piece.elements});
        places_.push_back({.group = g, .place = piece.place});
      }
    }
    const nn::Parameter& like = *groups_.front().parameters.front();
    const bool has_masters = is_half(like.dtype()) && !is_half(scope.precision.optimizer);
    ensure(!has_masters || !offload.offloads_parameters(),
           "weights that are offloaded have no master weights beside them");
    states_ = make_states(offload, pieces_, like, has_masters);
    stores_masters_ = states_ && has_masters;
    adamw_ = train::make_optimizer(scope.optimizer, pieces_,
                                   states_ ? offloaded_moments(states_) : nullptr);
    if (!stores_masters_) masters_.emplace(pieces_, scope.precision);
  }

  const std::string& data_group() const override { return data_group_; }
  const std::vector<train::OwnedPiece>& pieces() const override { return pieces_; }

  bool owns(std::size_t piece) const override {
    const bool first_copy = !ranks_.replicas || ranks_.replicas->rank() == 0;
    return first_copy && pieces_[piece].parameter->is_owner();
  }

  std::vector<optim::TensorUpdate> updates() override {
    std::vector<optim::TensorUpdate> updates;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      updates.push_back({.value = weights(i),
                         .grad = gradient(i),
                         .decay = train::decays(*pieces_[i].parameter),
                         .master = master(i)});
    }
    return updates;
  }

  void update(std::span<const optim::TensorUpdate> own, const train::StepRule& rule) override {
    step_own_shard(own, whole(), rule, *adamw_, ranks_.shards);
  }

  optim::AdamW& optimizer() override { return *adamw_; }
  std::shared_ptr<OffloadedStates> offloaded() const override { return states_; }

  Tensor weights(std::size_t piece) override {
    if (stores_weights()) return states_->weights_in_window(piece);
    return weight_shard(places_.at(piece).group).slice(0, places_[piece].place);
  }

  void read_weights(std::size_t piece, const Tensor& out) override {
    if (masters_ && !stores_weights()) return masters_->read(piece, weights(piece), out);
    states_->read_weights(states_->layout().elements_of(piece), out);
  }

  void write_weights(std::size_t piece, const Tensor& in) override {
    if (masters_ && !stores_weights()) return masters_->write(piece, weights(piece), in);
    states_->write_weights(states_->layout().elements_of(piece), in);
    if (stores_masters_) cast_into(weights(piece), in);
  }

  void share_weights() override {
    for (const Tensor& array : whole()) {
      ranks_.shards.labeled("weights").all_gather(own_shard(array, ranks_.shards), array);
    }
  }

  void step_ended(train::RankMeter& meter) override {
    if (states_) meter.storage_used(states_->use());
  }

  void conclude(train::RankMeter& meter) override {
    if (!states_) return;
    states_->settle();
    meter.storage_used(states_->use());
  }

 protected:
  /// [padded / S] This rank's shard of a group's weights.
  virtual Tensor weight_shard(std::size_t group) = 0;
  /// The gradient of a piece.
  virtual Tensor gradient(std::size_t piece) = 0;

  [[nodiscard]] const std::vector<ParameterGroup>& groups() const { return groups_; }
  [[nodiscard]] const ShardPiece& place(std::size_t piece) const { return places_[piece]; }
  [[nodiscard]] int rank() const { return ranks_.shards.rank(); }
  /// Whether the shards of the weights that the passes use are in storage.
  [[nodiscard]] bool stores_weights() const {
    return states_ && states_->layout().stores_weights() && !stores_masters_;
  }

 private:
  /// Where a piece's master weights are while it is updated; undefined where it has none.
  [[nodiscard]] Tensor master(std::size_t piece) const {
    return stores_masters_ ? states_->weights_in_window(piece) : masters_->of(piece);
  }

  std::string data_group_;
  ShardGroups ranks_;
  std::vector<ParameterGroup> groups_;
  std::vector<train::OwnedPiece> pieces_;
  std::vector<ShardPiece> places_;
  std::shared_ptr<OffloadedStates> states_;  // null: all on the device
  bool stores_masters_ = false;              // in states_
  std::unique_ptr<optim::AdamW> adamw_;
  std::optional<train::MasterWeights> masters_;  // on the device
};

/// Every rank has all weights; its shard is a part of each array.
class WholeModel : public ShardPieces {
 public:
  WholeModel(const ShardedScope& scope, const ShardGroups& ranks, const ZeroSettings& settings)
      : ShardPieces(scope,
                    groups_by_bucket(scope.chunks, scope.parameters, settings.bucket_capacity,
                                     ranks.shards.size()),
                    ranks, settings.offload),
        weights_(groups()) {}

  const std::vector<Tensor>& whole() const override { return weights_.flats(); }

 protected:
  Tensor weight_shard(std::size_t group) override {
    return weights_.flats()[group].slice(0, shard_range(groups()[group].layout, rank()));
  }

 private:
  WholeWeights weights_;
};

/// ZeRO-1: weights and gradients as wholes; only the optimizer's states are shards.
class OptimizerShards : public WholeModel {
 public:
  OptimizerShards(const ShardedScope& scope, const ShardGroups& ranks, const ZeroSettings& settings)
      : WholeModel(scope, ranks, settings),
        parameters_(scope.parameters),
        exchange_(data_parallel::sum_in_buckets(
            scope.parameters, as_buckets(groups()),
            settings.overlap == Overlap::kOn ? data_parallel::Flush::kWhenReady
                                             : data_parallel::Flush::kAfterBackward,
            reduce_scatter_exchange(ranks), static_cast<std::size_t>(ranks.shards.size()))) {}

  train::GradientExchange* exchange() override { return exchange_.get(); }
  void drop_gradients() override {
    for (nn::Parameter* parameter : parameters_) parameter->drop_grad();
  }

 protected:
  Tensor gradient(std::size_t piece) override {
    const train::OwnedPiece& owned = pieces()[piece];
    const Tensor& whole = owned.parameter->grad();
    return whole.view({whole.numel()}).slice(0, owned.elements);
  }

 private:
  std::vector<nn::Parameter*> parameters_;
  std::unique_ptr<train::GradientExchange> exchange_;
};

/// ZeRO-2: weights as wholes, gradients as shards.
class GradientsAndOptimizerShards : public WholeModel {
 public:
  GradientsAndOptimizerShards(const ShardedScope& scope, const ShardGroups& ranks,
                              const ZeroSettings& settings)
      : WholeModel(scope, ranks, settings), gradients_(groups(), ranks, settings.overlap) {}

  train::GradientExchange* exchange() override { return &gradients_; }
  void drop_gradients() override { gradients_.drop(); }

 protected:
  Tensor gradient(std::size_t piece) override {
    return gradients_.shard(place(piece).group).slice(0, place(piece).place);
  }

 private:
  GradientShards gradients_;
};

/// The units of each chunk's parts. Groups stand in the reverse of the forward order, units in it.
std::vector<ChunkUnits> units_of_parts(const std::vector<nn::Model*>& chunks,
                                       const std::vector<ParameterGroup>& groups) {
  std::vector<ChunkUnits> units;
  std::size_t next = 0;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    units.push_back({.units = {}, .blocks = chunks[chunk]->block_parts()});
    std::optional<std::size_t>& tied = units.back().tied;
    for (const nn::ModelPart& part : chunks[chunk]->parts()) {
      const ParameterGroup* group =
          next < groups.size() ? &groups[groups.size() - 1 - next] : nullptr;
      const bool has_unit = group != nullptr && group->chunk == chunk && group->name == part.name;
      if (has_unit && group->is_tied) tied = next;
      units.back().units.push_back(has_unit ? std::optional(next++) : std::nullopt);
    }
  }
  return units;
}

/// What gathers and releases units along the passes of a schedule.
struct UnitPasses {
  Prefetch fetch;  ///< of shards that are not on the device, one use earlier
  Prefetch prefetch;
};

// [region fully_sharded]
/// ZeRO-3: everything as shards; units of weights come and go.
class FullyShardedModel : public ShardPieces {
 public:
  FullyShardedModel(const ShardedScope& scope, const ShardGroups& ranks,
                    const ZeroSettings& settings)
      : ShardPieces(scope, groups_by_part(scope.chunks, scope.parameters, ranks.shards.size()),
                    ranks, settings.offload),
        parts_(ranks.shards, settings.plus_plus),
        gradients_(groups(), ranks,
                   [&](std::vector<ReducedGroup> reduced, const Device& device, DType dtype) {
                     return parts_.reducer(std::move(reduced), device, dtype, settings.overlap);
                   }),
        units_of_parts_(units_of_parts(scope.chunks, groups())),
        settings_(settings),
        training_(passes_of(scope.schedule, settings.reshard)),
        now_(&training_) {
    make_units(ranks.shards);
    for (std::size_t c = 0; c < scope.chunks.size(); ++c) {
      follow(*scope.chunks[c], units_of_parts_[c]);
    }
  }

  void validation_begins(const train::StepSchedule& forwards) override {
    validating_.reset(new UnitPasses(passes_of(forwards, Reshard::kAfterForward)));
    now_ = validating_.get();
  }
  void validation_ends() override { now_ = &training_; }

  train::GradientExchange* exchange() override { return &gradients_; }
  const std::vector<Tensor>& whole() const override { return nothing_; }
  void drop_gradients() override { gradients_.drop(); }

 protected:
  Tensor weight_shard(std::size_t group) override { return units_[group]->shard(); }

  Tensor gradient(std::size_t piece) override {
    return gradients_.shard(place(piece).group).slice(0, place(piece).place);
  }

 private:
  /// Units are numbered in forward order, groups in backward order.
  ShardedUnit& unit(std::size_t number) { return *units_[units_.size() - 1 - number]; }

  /// What follows the passes of a schedule through the units.
  UnitPasses passes_of(const train::StepSchedule& schedule, Reshard reshard) {
    const std::vector<UnitUse> uses =
        unit_uses(schedule, units_of_parts_, settings_.recompute_every);
    return {.fetch{uses,
                   fetch_ahead(settings_),
                   reshard,
                   {.start_gather = [this](const UnitUse& use) { unit(use.unit).start_fetch(); },
                    .wait = [](std::size_t) {},
                    .release = [](std::size_t) {}}},
            .prefetch{uses,
                      settings_.prefetch,
                      reshard,
                      {.start_gather =
                           [this](const UnitUse& use) {
                             unit(use.unit).next_use(use.kind);
                             unit(use.unit).start_gather();
                           },
                       .wait = [this](std::size_t number) { unit(number).wait(); },
                       .release = [this](std::size_t number) { unit(number).release(); }}}};
  }

  /// Lets units come and go around the passes of the parts that read them.
  void follow(nn::Model& chunk, const ChunkUnits& units) {
    const auto around = [this, &units](const nn::PartCall& call) {
      // A shard comes before it is gathered.
      if (stores_weights()) units.for_each_of(call.part, [&](auto u) { now_->fetch.begin(u); });
      units.for_each_of(call.part, [&](auto u) { now_->prefetch.begin(u); });
      call.compute();
      units.for_each_of(call.part, [&](auto u) { now_->prefetch.end(u); });
      if (stores_weights()) units.for_each_of(call.part, [&](auto u) { now_->fetch.end(u); });
    };
    hooks_.push_back(chunk.add_part_hook({.forward = around, .backward = around}));
  }

  void make_units(const Communicator& shards) {
    std::size_t first = 0;  // element of those that this rank owns
    for (const ParameterGroup& group : groups()) {
      units_.push_back(stores_weights() ? offloaded_unit(group, shards, *offloaded(), first)
                                        : parts_.unit(group));
      for (const Piece& piece : pieces_of(group.layout, rank())) first += piece.elements.size();
    }
  }

  ZeroPlusPlusParts parts_;
  std::vector<std::unique_ptr<ShardedUnit>> units_;  // by group
  GradientShards gradients_;
  std::vector<ChunkUnits> units_of_parts_;
  ZeroSettings settings_;
  UnitPasses training_;
  std::unique_ptr<UnitPasses> validating_;
  UnitPasses* now_;  // one of the two
  std::vector<Tensor> nothing_;
  std::vector<nn::HookHandle> hooks_;  // of the chunks
};
// [/region]

}  // namespace

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
  switch (settings.stage) {
    case ZeroStage::kNone:
      break;
    case ZeroStage::kOptimizer:
      return std::make_unique<OptimizerShards>(scope, ranks, settings);
    case ZeroStage::kGradients:
      return std::make_unique<GradientsAndOptimizerShards>(scope, ranks, settings);
    case ZeroStage::kParameters:
      return std::make_unique<FullyShardedModel>(scope, ranks, settings);
  }
  throw InternalError("a model that is sharded has a stage from 1 to 3");
}

}  // namespace ultra::zero
