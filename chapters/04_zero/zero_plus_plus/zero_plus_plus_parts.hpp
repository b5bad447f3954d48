#pragma once
/// @file
/// FullyShardedParts: makes the parts of a fully sharded model, those of ZeRO-3 or of ZeRO++, offloaded or not.
///
/// Those of ZeRO++ are ZeroPlusPlusUnit, a unit of weights that travels quantised, or of which the node keeps a
/// copy; and QuantizedReducer: gradients become shards by an all-to-all of quantised pieces.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "chapters/04_zero/shard_reducer.hpp"
#include "chapters/04_zero/shards/shard_groups.hpp"
#include "chapters/04_zero/stages.hpp"
#include "chapters/04_zero/units.hpp"
#include "chapters/04_zero/zero_plus_plus/block_quantization.hpp"
#include "common/comm/communicator.hpp"
#include "common/comm/work.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief Reduces groups of gradients to this rank's shards, as qgZ does: in ShardReducer's order, but
/// what travels are quantised pieces.
///
/// A reduce-scatter of quantised numbers by a ring would quantise the sum anew at each of its S - 1
/// steps. Here every rank quantises its piece for each owner, the pieces change hands in an
/// all-to-all, and the owner adds them up in the gradients' own type, in the order of the ranks: the
/// same bits in every run.
///
/// With nodes (n ranks in each of K) this happens twice. Inside the node a rank gets what the node has
/// for its K "columns", the owners with its place in each node; the sums are quantised again and
/// change hands between the K ranks of a column. Between nodes a rank sends K - 1 pieces instead of
/// the S - n of one step, for a second quantisation. One node, or nodes of one rank, are no nodes.
///
/// Memory: as ShardReducer, but what is under way are the quantised pieces sent and received; and
/// while they are added up, K shards of sums. All as MemoryCategory::kCommunication.
/// Cost: with q bytes for a quantised shard, (S-1) q sent per rank, group and pass; with nodes
/// (n-1) K q + (K-1) q, of which (K-1) q between nodes.
/// Source: Wang et al. 2023, "ZeRO++", arXiv 2306.10209, section 3.3. Deviation: the second step is
/// waited for at once, so it does not overlap with the backward pass.
class QuantizedReducer : public ShardReducer {
 public:
  /// @brief Reduces nothing yet.
  /// @param groups  in the order in which the backward pass makes them.
  /// @param shards  the ranks that share the result.
  /// @param nodes   of these ranks; absent: one step.
  QuantizedReducer(std::vector<ReducedGroup> groups, const Communicator& shards,
                   const std::optional<NodeGroups>& nodes, const BlockFormat& format, Device device,
                   DType dtype, Overlap overlap);

  void flush(std::size_t group) override;

 private:
  void drain_oldest() override;
  [[nodiscard]] UnderWay begin_first_step(std::size_t group, const Tensor& flat) const;
  [[nodiscard]] Tensor exchanged_between_nodes(std::size_t group, const Tensor& columns) const;
  [[nodiscard]] Tensor exchange_memory(std::size_t words) const;
  [[nodiscard]] Tensor sum_of(const Tensor& exchange, std::size_t columns, std::size_t shard) const;

  Communicator first_;                  // of a node, or all ranks
  std::optional<Communicator> second_;  // the column's, when there are nodes
  std::size_t ranks_;
  BlockFormat format_;
};

/// @brief The weights of one unit, gathered as qwZ and hpZ do.
///
/// What travels is one array that the ranks make up: the unit, or, with qwZ, the messages of all
/// ranks, each the quantised shard of one of them. All ranks compute with what the messages hold,
/// the owner of a shard too, so that they compute with the same weights; shard() stays exact.
///
/// With hpZ, the gather for a forward pass goes over all ranks, that for its backward pass stays
/// inside the node: each gather for a forward pass leaves 1 / node_size of the array with the rank.
/// Nothing is quantised a second time, and both passes have the same weights, bit for bit. An
/// update must not come in between.
///
/// Memory: the shard, and from the first wait() on the secondary shard, as
/// MemoryCategory::kParameters; the whole unit from wait() to release(), and messages from
/// start_gather() to wait(), as MemoryCategory::kCommunication. Not quantised, the whole unit is
/// there from start_gather() on.
/// Source: Wang et al. 2023, "ZeRO++", arXiv 2306.10209, sections 3.1 and 3.2.
class ZeroPlusPlusUnit : public ShardedUnit {
 public:
  /// @brief Makes this rank's shard of the initial weights; the whole unit never exists.
  /// @param group   its parameters get their values here; they outlive this object.
  /// @param shards  the ranks that own the other shards.
  /// @param nodes   of these ranks; needed with SecondaryShards::kInNode.
  ZeroPlusPlusUnit(ParameterGroup group, const Communicator& shards, const ZeroPlusPlus& how,
                   const std::optional<NodeGroups>& nodes);

  /// @brief [padded / S] The weights that this rank owns, and updates.
  [[nodiscard]] const Tensor& shard() const { return shard_; }
  [[nodiscard]] Tensor piece(std::size_t /*piece*/, const Range& place) const override {
    return shard_.slice(0, place);
  }
  void next_use(UseKind kind) override { use_ = kind; }

  /// @copybrief ShardedUnit::start_gather
  /// @throws InternalError when the unit is there, or under way.
  /// Collective.   Cost: (S-1)/S bytes of the array sent per rank; inside a node of n ranks
  /// (n-1)/n.
  void start_gather() override;
  void wait() override;
  void release() override;

  /// @brief [1 / node_size of what travels] This rank's part of the node's copy, of the parameters'
  /// type or, with qwZ, of i32; undefined before the first forward pass.
  [[nodiscard]] const Tensor& secondary() const { return secondary_; }

 private:
  [[nodiscard]] Tensor memory_for_gather() const;
  void renew_secondary();
  [[nodiscard]] Tensor dequantized() const;

  ParameterGroup group_;
  Communicator shards_;               // labelled with the unit
  std::optional<Communicator> node_;  // likewise; absent without secondary shards
  std::optional<BlockFormat> format_;
  Tensor shard_;
  UseKind use_ = UseKind::kForward;  // of the gather that begins next, or is under way
  Tensor secondary_;                 // undefined: no unit was gathered for a forward pass yet
  Tensor gathered_;                  // what travels, from start_gather() to wait()
  Tensor whole_;                     // [padded], from wait() to release()
  Work gather_;
};

/// @brief Chooses what gathers weights and what reduces gradients.
class FullyShardedParts {
 public:
  /// @brief Groups the ranks into nodes, if there are any.
  /// @param offloaded  has the weights, where settings.offload says so.
  /// Collective when settings.plus_plus.node_size is given.
  /// @throws ConfigError with the equation when the node size does not divide the number of shards.
  FullyShardedParts(ShardGroups ranks, ZeroSettings settings,
                    std::shared_ptr<OffloadedStates> offloaded);

  /// @brief Units with their initial weights: UnitWeights or, by rows, row_unit(); ZeroPlusPlusUnits
  /// where weights travel quantised or the node keeps them; offloaded_units() where shards are in storage.
  [[nodiscard]] Units units(const std::vector<ParameterGroup>& groups) const;

  /// @brief What brings offloaded shards earlier than they are gathered; null where shards stay on the
  /// device. To be made before the hooks that gather units: a shard comes before it is gathered.
  /// @param parts, units  outlive the result.
  [[nodiscard]] std::unique_ptr<ShardFetches> fetches(const std::vector<nn::Model*>& chunks,
                                                      const std::vector<ChunkUnits>& parts,
                                                      const Units& units) const;

  /// @brief A ShardReducer, or a QuantizedReducer where gradients travel quantised; joined_by_tree().
  [[nodiscard]] std::unique_ptr<GroupReducer> reducer(const std::vector<ParameterGroup>& groups,
                                                      const train::StepSchedule& schedule) const;

 private:
  ShardGroups ranks_;
  ZeroSettings settings_;
  std::shared_ptr<OffloadedStates> offloaded_;
  std::optional<NodeGroups> nodes_;
};

}  // namespace ultra::zero
