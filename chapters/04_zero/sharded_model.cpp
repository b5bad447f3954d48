#include "chapters/04_zero/sharded_model.hpp"

#include <utility>

#include "chapters/04_zero/offload/offloaded_unit.hpp"
#include "chapters/04_zero/shards/gradient_shards.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/shards/sharded_unit.hpp"
#include "chapters/04_zero/shards/whole_weights.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_parts.hpp"
#include "chapters/04_zero/zero_step.hpp"
#include "common/base/errors.hpp"
#include "common/train/update.hpp"

namespace ultra::zero {
namespace {

/// A piece of a group's parameter that this rank owns, and where it stands in the rank's shard.
struct ShardPiece {
  std::size_t group;
  Range place;
};

/// The states of the pieces, outside the device's memory if they are to be.
std::shared_ptr<OffloadedStates> make_states(const OffloadSettings& settings,
                                             const std::vector<OwnedPiece>& pieces,
                                             const nn::Parameter& like) {
  if (settings.what == Offload::kNone) return nullptr;
  std::vector<std::size_t> counts;
  for (const OwnedPiece& piece : pieces) counts.push_back(piece.elements.size());
  return std::make_shared<OffloadedStates>(settings, counts, like.device(), like.dtype());
}

/// What the three stages have in common: which pieces this rank owns.
class ShardPieces : public ShardedModel {
 public:
  ShardPieces(std::vector<ParameterGroup> groups, ShardGroups ranks, const OffloadSettings& offload)
      : ranks_(std::move(ranks)), groups_(std::move(groups)) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const Piece& piece : pieces_of(groups_[g].layout, ranks_.shards.rank())) {
        pieces_.push_back(
            {.parameter = groups_[g].parameters[piece.tensor], .elements = piece.elements});
        places_.push_back({.group = g, .place = piece.place});
      }
    }
    states_ = make_states(offload, pieces_, *groups_.front().parameters.front());
  }

  const std::vector<OwnedPiece>& pieces() const override { return pieces_; }

  Tensor weights(std::size_t piece) override {
    if (stores_weights()) return states_->weights_in_window(piece);
    return weight_shard(places_.at(piece).group).slice(0, places_[piece].place);
  }

  void read_weights(std::size_t piece, const Tensor& out) override {
    if (!stores_weights()) return out.copy_from(weights(piece));
    states_->read_weights(states_->layout().elements_of(piece), out);
  }

  void write_weights(std::size_t piece, const Tensor& in) override {
    if (!stores_weights()) return weights(piece).copy_from(in);
    states_->write_weights(states_->layout().elements_of(piece), in);
  }

  std::shared_ptr<OffloadedStates> offloaded() const override { return states_; }

  std::vector<optim::TensorUpdate> own() override {
    std::vector<optim::TensorUpdate> updates;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      updates.push_back({.value = weights(i),
                         .grad = gradient(i),
                         .decay = train::decays(*pieces_[i].parameter)});
    }
    return updates;
  }

 protected:
  /// [padded / S] This rank's shard of a group's weights.
  virtual Tensor weight_shard(std::size_t group) = 0;
  /// The gradient of a piece.
  virtual Tensor gradient(std::size_t piece) = 0;

  [[nodiscard]] const std::vector<ParameterGroup>& groups() const { return groups_; }
  [[nodiscard]] const ShardPiece& place(std::size_t piece) const { return places_[piece]; }
  [[nodiscard]] int rank() const { return ranks_.shards.rank(); }
  [[nodiscard]] bool stores_weights() const {
    return states_ && states_->layout().stores_weights();
  }

 private:
  ShardGroups ranks_;
  std::vector<ParameterGroup> groups_;
  std::vector<OwnedPiece> pieces_;
  std::vector<ShardPiece> places_;
  std::shared_ptr<OffloadedStates> states_;  // null: all on the device
};

/// Every rank has all weights; its shard is a part of each array.
class WholeModel : public ShardPieces {
 public:
  WholeModel(nn::Model& model, const ShardGroups& ranks, const ZeroSettings& settings)
      : ShardPieces(groups_by_bucket(model, settings.bucket_capacity, ranks.shards.size()), ranks,
                    settings.offload),
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
  OptimizerShards(nn::Model& model, const ShardGroups& ranks, const ZeroSettings& settings)
      : WholeModel(model, ranks, settings),
        model_(model),
        sync_(data_parallel::sync_in_buckets(
            model, settings.bucket_capacity,
            settings.overlap == Overlap::kOn ? data_parallel::Flush::kWhenReady
                                             : data_parallel::Flush::kAfterBackward,
            reduce_scatter_exchange(ranks), static_cast<std::size_t>(ranks.shards.size()))) {}

  data_parallel::GradientSync& sync() override { return *sync_; }
  void drop_gradients() override { model_.drop_grads(); }

 protected:
  Tensor gradient(std::size_t piece) override {
    const OwnedPiece& owned = pieces()[piece];
    const Tensor& whole = owned.parameter->grad();
    return whole.view({whole.numel()}).slice(0, owned.elements);
  }

 private:
  nn::Model& model_;
  std::unique_ptr<data_parallel::GradientSync> sync_;
};

/// ZeRO-2: weights as wholes, gradients as shards.
class GradientsAndOptimizerShards : public WholeModel {
 public:
  GradientsAndOptimizerShards(nn::Model& model, const ShardGroups& ranks,
                              const ZeroSettings& settings)
      : WholeModel(model, ranks, settings), gradients_(model, groups(), ranks, settings.overlap) {}

  data_parallel::GradientSync& sync() override { return gradients_; }
  void drop_gradients() override { gradients_.drop(); }

 protected:
  Tensor gradient(std::size_t piece) override {
    return gradients_.shard(place(piece).group).slice(0, place(piece).place);
  }

 private:
  GradientShards gradients_;
};

// [region fully_sharded]
/// ZeRO-3: everything as shards; units of weights come and go.
class FullyShardedModel : public ShardPieces {
 public:
  FullyShardedModel(nn::Model& model, const ShardGroups& ranks, const ZeroSettings& settings)
      : ShardPieces(groups_by_part(model, ranks.shards.size()), ranks, settings.offload),
        parts_(ranks.shards, settings.plus_plus),
        gradients_(model, groups(), ranks,
                   [&](std::vector<ReducedGroup> reduced, const Device& device, DType dtype) {
                     return parts_.reducer(std::move(reduced), device, dtype, settings.overlap);
                   }),
        fetch_(groups().size(), fetch_ahead(settings), settings.reshard,
               {.start_gather = [this](std::size_t part) { unit(part).start_fetch(); },
                .wait = [](std::size_t) {},
                .release = [](std::size_t) {}}),
        prefetch_(groups().size(), settings.prefetch, settings.reshard,
                  {.start_gather = [this](std::size_t part) { unit(part).start_gather(); },
                   .wait = [this](std::size_t part) { unit(part).wait(); },
                   .release = [this](std::size_t part) { unit(part).release(); }}) {
    make_units(ranks.shards);
    for (Prefetch* follows : {&fetch_, &prefetch_}) {  // a shard comes before it is gathered
      if (follows == &fetch_ && !stores_weights()) continue;
      model.add_part_hooks(
          {.before_forward = [follows](std::size_t part) { follows->before_forward(part); },
           .after_forward = [follows](std::size_t part) { follows->after_forward(part); },
           .before_backward = [follows](std::size_t part) { follows->before_backward(part); },
           .after_backward = [follows](std::size_t part) { follows->after_backward(part); }});
    }
  }

  data_parallel::GradientSync& sync() override { return gradients_; }
  const std::vector<Tensor>& whole() const override { return nothing_; }
  void drop_gradients() override { gradients_.drop(); }

 protected:
  Tensor weight_shard(std::size_t group) override { return units_[group]->shard(); }

  Tensor gradient(std::size_t piece) override {
    return gradients_.shard(place(piece).group).slice(0, place(piece).place);
  }

 private:
  /// Parts are numbered in forward order, groups in backward order.
  ShardedUnit& unit(std::size_t part) { return *units_[units_.size() - 1 - part]; }

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
  Prefetch fetch_;  // of shards that are not on the device, one use earlier
  Prefetch prefetch_;
  std::vector<Tensor> nothing_;
};
// [/region]

}  // namespace

std::unique_ptr<ShardedModel> shard_model(nn::Model& model, const ShardGroups& ranks,
                                          const ZeroSettings& settings) {
  ensure(settings.stage == ZeroStage::kParameters || !settings.offload.offloads_parameters(),
         "weights that every rank keeps as a whole are not offloaded");
  switch (settings.stage) {
    case ZeroStage::kNone:
      break;
    case ZeroStage::kOptimizer:
      return std::make_unique<OptimizerShards>(model, ranks, settings);
    case ZeroStage::kGradients:
      return std::make_unique<GradientsAndOptimizerShards>(model, ranks, settings);
    case ZeroStage::kParameters:
      return std::make_unique<FullyShardedModel>(model, ranks, settings);
  }
  throw InternalError("a model that is sharded has a stage from 1 to 3");
}

}  // namespace ultra::zero
