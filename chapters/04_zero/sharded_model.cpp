#include "chapters/04_zero/sharded_model.hpp"

#include <utility>

#include "chapters/04_zero/gradient_shards.hpp"
#include "chapters/04_zero/parameter_group.hpp"
#include "chapters/04_zero/sharded_unit.hpp"
#include "chapters/04_zero/whole_weights.hpp"
#include "chapters/04_zero/zero_plus_plus_parts.hpp"
#include "chapters/04_zero/zero_step.hpp"
#include "common/base/errors.hpp"
#include "common/train/update.hpp"

namespace ultra::zero {
namespace {

/// The part of a piece's parameter that it stands for.
Tensor part_of(const Tensor& whole, const Piece& piece) {
  return whole.view({whole.numel()}).slice(0, piece.elements);
}

/// ZeRO-1: weights and gradients as wholes; only the optimizer's states are shards.
class OptimizerShards : public ShardedModel {
 public:
  OptimizerShards(nn::Model& model, const ShardGroups& ranks, const ZeroSettings& settings)
      : model_(model),
        ranks_(ranks),
        groups_(groups_by_bucket(model, settings.bucket_capacity, ranks.shards.size())),
        weights_(groups_),
        sync_(data_parallel::sync_in_buckets(
            model, settings.bucket_capacity,
            settings.overlap == Overlap::kOn ? data_parallel::Flush::kWhenReady
                                             : data_parallel::Flush::kAfterBackward,
            reduce_scatter_exchange(ranks), static_cast<std::size_t>(ranks.shards.size()))) {}

  data_parallel::GradientSync& sync() override { return *sync_; }

  std::vector<optim::TensorUpdate> own() override {
    std::vector<optim::TensorUpdate> updates;
    for (const ParameterGroup& group : groups_) {
      for (const Piece& piece : pieces_of(group.layout, ranks_.shards.rank())) {
        const nn::Parameter& parameter = *group.parameters[piece.tensor];
        updates.push_back({.value = part_of(parameter.value(), piece),
                           .grad = part_of(parameter.grad(), piece),
                           .decay = train::decays(parameter)});
      }
    }
    return updates;
  }

  const std::vector<Tensor>& whole() const override { return weights_.flats(); }
  void drop_gradients() override { model_.drop_grads(); }

 private:
  nn::Model& model_;
  ShardGroups ranks_;
  std::vector<ParameterGroup> groups_;
  WholeWeights weights_;
  std::unique_ptr<data_parallel::GradientSync> sync_;
};

/// The pieces of one shard of weights and of its gradient.
void append_pieces(const ParameterGroup& group, int rank, const Tensor& weights,
                   const Tensor& gradients, std::vector<optim::TensorUpdate>& updates) {
  for (const Piece& piece : pieces_of(group.layout, rank)) {
    updates.push_back({.value = weights.slice(0, piece.place),
                       .grad = gradients.slice(0, piece.place),
                       .decay = train::decays(*group.parameters[piece.tensor])});
  }
}

/// ZeRO-2: weights as wholes, gradients as shards.
class GradientsAndOptimizerShards : public ShardedModel {
 public:
  GradientsAndOptimizerShards(nn::Model& model, const ShardGroups& ranks,
                              const ZeroSettings& settings)
      : ranks_(ranks),
        groups_(groups_by_bucket(model, settings.bucket_capacity, ranks.shards.size())),
        weights_(groups_),
        gradients_(model, groups_, ranks, settings.overlap) {}

  data_parallel::GradientSync& sync() override { return gradients_; }

  std::vector<optim::TensorUpdate> own() override {
    const int rank = ranks_.shards.rank();
    std::vector<optim::TensorUpdate> updates;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const Tensor own = weights_.flats()[g].slice(0, shard_range(groups_[g].layout, rank));
      append_pieces(groups_[g], rank, own, gradients_.shard(g), updates);
    }
    return updates;
  }

  const std::vector<Tensor>& whole() const override { return weights_.flats(); }
  void drop_gradients() override { gradients_.drop(); }

 private:
  ShardGroups ranks_;
  std::vector<ParameterGroup> groups_;
  WholeWeights weights_;
  GradientShards gradients_;
};

// [region fully_sharded]
/// ZeRO-3: everything as shards; units of weights come and go.
class FullyShardedModel : public ShardedModel {
 public:
  FullyShardedModel(nn::Model& model, const ShardGroups& ranks, const ZeroSettings& settings)
      : ranks_(ranks),
        groups_(groups_by_part(model, ranks.shards.size())),
        parts_(ranks.shards, settings.plus_plus),
        gradients_(model, groups_, ranks,
                   [&](std::vector<ReducedGroup> groups, const Device& device, DType dtype) {
                     return parts_.reducer(std::move(groups), device, dtype, settings.overlap);
                   }),
        prefetch_(groups_.size(), settings.prefetch, settings.reshard,
                  {.start_gather = [this](std::size_t part) { unit(part).start_gather(); },
                   .wait = [this](std::size_t part) { unit(part).wait(); },
                   .release = [this](std::size_t part) { unit(part).release(); }}) {
    for (const ParameterGroup& group : groups_) units_.push_back(parts_.unit(group));
    model.add_part_hooks(
        {.before_forward = [this](std::size_t part) { prefetch_.before_forward(part); },
         .after_forward = [this](std::size_t part) { prefetch_.after_forward(part); },
         .before_backward = [this](std::size_t part) { prefetch_.before_backward(part); },
         .after_backward = [this](std::size_t part) { prefetch_.after_backward(part); }});
  }

  data_parallel::GradientSync& sync() override { return gradients_; }

  std::vector<optim::TensorUpdate> own() override {
    std::vector<optim::TensorUpdate> updates;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      append_pieces(groups_[g], ranks_.shards.rank(), units_[g]->shard(), gradients_.shard(g),
                    updates);
    }
    return updates;
  }

  const std::vector<Tensor>& whole() const override { return nothing_; }
  void drop_gradients() override { gradients_.drop(); }

 private:
  /// Parts are numbered in forward order, groups in backward order.
  ShardedUnit& unit(std::size_t part) { return *units_[units_.size() - 1 - part]; }

  ShardGroups ranks_;
  std::vector<ParameterGroup> groups_;
  ZeroPlusPlusParts parts_;
  std::vector<std::unique_ptr<ShardedUnit>> units_;  // by group
  GradientShards gradients_;
  Prefetch prefetch_;
  std::vector<Tensor> nothing_;
};
// [/region]

}  // namespace

std::unique_ptr<ShardedModel> shard_model(nn::Model& model, const ShardGroups& ranks,
                                          const ZeroSettings& settings) {
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
