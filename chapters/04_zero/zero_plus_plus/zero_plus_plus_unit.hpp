#pragma once
/// @file
/// ZeroPlusPlusUnit: a unit of weights that travels quantised, or of which the node keeps a copy.

#include <optional>

#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/shards/shard_groups.hpp"
#include "chapters/04_zero/units.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus.hpp"
#include "common/comm/communicator.hpp"
#include "common/comm/work.hpp"

namespace ultra::zero {

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

}  // namespace ultra::zero
