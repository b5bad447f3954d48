#include "chapters/04_zero/shards/gradient_shards.hpp"
#include "chapters/04_zero/stages.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_parts.hpp"
#include "chapters/04_zero/zero_step.hpp"
#include "common/train/weights/frozen_weights.hpp"

namespace ultra::zero {
namespace {

class Zero3 final : public ShardedModel {
 public:
  /// @param units  of all parameters; the groups of the model are those of gradients, and may be fewer.
  Zero3(const ShardedScope& scope, const ShardGroups& ranks, const ZeroSettings& settings,
        const std::vector<ParameterGroup>& units, std::vector<ParameterGroup> trained)
      : ShardedModel(scope, std::move(trained), frozen_pieces(units, ranks), ranks,
                     settings.offload),
        settings_(settings),
        chunks_(units_of_chunks(scope.chunks, units)),
        parts_(ranks, settings, offloaded()),
        units_(parts_.units(units)),
        weight_sites_(weight_sites(units, ranks.shards.rank())),
        gradients_(groups(), parts_.reducer(groups(), scope.schedule), Departure::kWhenAsked),
        prefetch_(settings.prefetch, gathers_of(units_)),
        fetches_(parts_.fetches(scope.chunks, chunks_, units_)) {
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
      hooks_.push_back(scope.chunks[c]->add_part_hook(life_of_units(chunks_[c])));
    }
    Zero3::passes_begin(scope.schedule);
  }

  // [region zero3]
  /// A unit's step from top to bottom. Whole weights exist between gather and free only.
  nn::PartHook life_of_units(const ChunkUnits& chunk) {
    return {.forward =
                [this, &chunk](const nn::PartCall& call) {
                  prefetch_.gather(chunk.of(call.part));  // all-gather, begun some uses earlier
                  call.compute();
                  prefetch_.free(chunk.of(call.part));  // unless its backward pass is the next use
                },
            .backward =
                [this, &chunk](const nn::PartCall& call) {
                  prefetch_.gather(chunk.of(call.part));
                  call.compute();               // writes gradients into the reducer's memory
                  gradients_.reduce_scatter();  // goes on while the next part computes
                  prefetch_.free(chunk.of(call.part));
                }};
  }

  /// After the passes each shard of the gradients is their sum; this rank's shard is updated, and the
  /// next gathers bring the new weights to all.
  train::GradientExchange* exchange() override { return gradients_.used(); }
  void update(std::span<const optim::TensorUpdate> own, const train::StepRule& rule) override {
    step_own_shard(own, {}, rule, optimizer(), shards());
  }
  void drop_gradients() override { gradients_.drop(); }
  // [/region]
  Tensor weights(std::size_t piece) override {
    const auto& [unit, elements] = weight_sites_.at(piece);
    return units_[unit]->piece(piece, elements);
  }
  Tensor gradient(std::size_t piece) override {
    return gradients_.shard(site(piece).group).slice(0, site(piece).elements);
  }

  void passes_begin(const train::StepSchedule& schedule) override {
    const auto uses = unit_uses(schedule, chunks_, settings_.recompute_every);
    const Reshard reshard = reshard_in(schedule, settings_.reshard);
    if (fetches_) fetches_->follow(uses, reshard);
    prefetch_.follow(uses, reshard);
  }

 private:
  ZeroSettings settings_;
  std::vector<ChunkUnits> chunks_;
  FullyShardedParts parts_;
  Units units_;
  std::vector<PieceSite> weight_sites_;  // by piece: in a unit
  GradientShards gradients_;             // of the groups
  Prefetch prefetch_;
  std::unique_ptr<ShardFetches> fetches_;  // null: all shards are on the device
  std::vector<nn::HookHandle> hooks_;      // of the chunks
};

}  // namespace

std::unique_ptr<ShardedModel> zero3(const ShardedScope& scope, const ShardGroups& ranks,
                                    const ZeroSettings& settings) {
  const auto by_part = [&](const std::vector<nn::Parameter*>& parameters) {
    return groups_by_part(scope.chunks, parameters, ranks.shards.size(), settings.cut);
  };
  return std::make_unique<Zero3>(scope, ranks, settings, by_part(scope.parameters),
                                 by_part(train::trained(scope.parameters)));
}

}  // namespace ultra::zero
