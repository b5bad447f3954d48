#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "chapters/04_zero/offload/offloaded_unit.hpp"
#include "chapters/04_zero/shards/gradient_shards.hpp"
#include "chapters/04_zero/shards/tree_reducer.hpp"
#include "chapters/04_zero/stages.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_parts.hpp"
#include "chapters/04_zero/zero_step.hpp"
#include "common/base/errors.hpp"
#include "common/train/weights/frozen_weights.hpp"

namespace ultra::zero {
namespace {

/// A flat shard has pieces of all parameters of its unit, and would have to leave out some.
std::vector<ParameterGroup> expect_one_kind(std::vector<ParameterGroup> units) {
  for (const ParameterGroup& unit : units) {
    const std::size_t frozen = train::frozen(unit.parameters).size();
    if (unit.cut == ShardCut::kRows || frozen == 0 || frozen == unit.parameters.size()) continue;
    throw ConfigError(
        fmt::format("--freeze leaves {} with {} frozen parameters and {} that are trained, and a "
                    "flat unit is all of "
                    "one kind. Give --shards rows, which has each parameter for itself, or freeze "
                    "all of the unit.",
                    unit.name, frozen, unit.parameters.size() - frozen));
  }
  return units;
}

/// The shards of frozen parameters, of units of all kinds.
std::vector<train::OwnedPiece> frozen_pieces(const std::vector<ParameterGroup>& units,
                                             const ShardGroups& ranks) {
  std::vector<train::OwnedPiece> pieces = owned_pieces(units, ranks);
  std::erase_if(pieces,
                [](const train::OwnedPiece& piece) { return !piece.parameter->is_frozen(); });
  return pieces;
}

class Zero3 final : public ShardedModel {
 public:
  Zero3(const ShardedScope& scope, const ShardGroups& ranks, const ZeroSettings& settings)
      : Zero3(scope, ranks, settings,
              expect_one_kind(groups_by_part(scope.chunks, scope.parameters, ranks.shards.size(),
                                             settings.cut))) {}

  /// @param units  of all parameters; the groups of the model are those of gradients, and may be fewer.
  Zero3(const ShardedScope& scope, const ShardGroups& ranks, const ZeroSettings& settings,
        const std::vector<ParameterGroup>& units)
      : ShardedModel(scope,
                     groups_by_part(scope.chunks, train::trained(scope.parameters),
                                    ranks.shards.size(), settings.cut),
                     frozen_pieces(units, ranks), ranks, settings.offload),
        settings_(settings),
        chunks_(units_of_chunks(scope.chunks, units)),
        parts_(ranks, settings.plus_plus),
        units_(settings.offload.offloads_parameters()
                   ? offloaded_units(units, ranks.shards, *offloaded())
                   : parts_.units(units, settings.gather)),
        gradients_(groups(),
                   joined_by_tree(parts_.reducer(groups(), settings.overlap, scope.schedule),
                                  groups(), scope.schedule),
                   Departure::kWhenAsked),
        prefetch_(settings.prefetch, gathers_of(units_)) {
    place_weights(units, ranks.shards.rank());
    if (settings.offload.offloads_parameters()) {
      fetches_.emplace(scope.chunks, chunks_, units_, fetch_ahead(settings));
    }
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
                  gather(chunk.of(call.part));  // all-gather of the shards, begun some uses earlier
                  call.compute();
                  free(chunk.of(call.part));  // unless its own backward pass is the next use
                },
            .backward =
                [this, &chunk](const nn::PartCall& call) {
                  gather(chunk.of(call.part));
                  call.compute();               // writes gradients into the reducer's memory
                  gradients_.reduce_scatter();  // goes on while the next part computes
                  free(chunk.of(call.part));
                }};
  }
  void gather(const std::vector<std::size_t>& units) {
    for (const std::size_t unit : units) prefetch_.gather(unit);
  }
  void free(const std::vector<std::size_t>& units) {
    for (const std::size_t unit : units) prefetch_.free(unit);
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
    const bool trains = std::ranges::any_of(schedule, &train::Action::makes_gradients);
    const Reshard reshard = trains ? settings_.reshard : Reshard::kAfterForward;
    if (fetches_) fetches_->follow(uses, reshard);
    prefetch_.follow(uses, reshard);
  }

 private:
  /// Weights stand in shards of units, in which frozen ones may stand between those that are trained.
  void place_weights(const std::vector<ParameterGroup>& units, int rank) {
    std::vector<PieceSite> frozen;
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      for (const Piece& piece : units[unit].pieces(rank)) {
        const bool is_frozen = units[unit].parameters[piece.tensor]->is_frozen();
        (is_frozen ? frozen : weight_sites_).push_back({.group = unit, .elements = piece.place});
      }
    }
    weight_sites_.insert(weight_sites_.end(), frozen.begin(), frozen.end());
  }

  ZeroSettings settings_;
  std::vector<ChunkUnits> chunks_;
  ZeroPlusPlusParts parts_;
  Units units_;
  std::vector<PieceSite> weight_sites_;  // by piece: in a unit
  GradientShards gradients_;             // of the groups
  Prefetch prefetch_;
  std::optional<ShardFetches> fetches_;  // absent: all shards are on the device
  std::vector<nn::HookHandle> hooks_;    // of the chunks
};

}  // namespace

std::unique_ptr<ShardedModel> zero3(const ShardedScope& scope, const ShardGroups& ranks,
                                    const ZeroSettings& settings) {
  return std::make_unique<Zero3>(scope, ranks, settings);
}

}  // namespace ultra::zero
