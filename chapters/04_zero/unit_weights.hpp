#pragma once
/// @file
/// UnitWeights: ZeRO-3's weights. A rank holds its shard of a unit; the whole unit is gathered
/// before it computes, and released afterwards.
///
/// Exercise 04.4 (`./workbook check 04.4`). Body: solutions/04_zero/unit_weights.cpp.
/// Source: Rajbhandari et al. 2020, "ZeRO", arXiv 1910.02054, section 5.3; the unit is that of Zhao et
/// al. 2023, "PyTorch FSDP", arXiv 2304.11277, section 3.2.1.

#include <utility>

#include "chapters/04_zero/shards/parameter_group.hpp"
#include "chapters/04_zero/units.hpp"
#include "common/comm/communicator.hpp"
#include "common/comm/work.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief The weights of one unit (the embedding, a block, the head), of which this rank owns a shard.
///
/// Between release() and wait() the unit's parameters have no values.
/// Memory: the shard, as MemoryCategory::kParameters; from start_gather() to release() the whole unit,
/// as MemoryCategory::kCommunication.
class UnitWeights : public ShardedUnit {
 public:
  /// @brief Makes this rank's shard of the initial weights; the whole unit never exists.
  /// @param group   its parameters get their values here; they outlive this object.
  /// @param shards  the ranks that own the other shards.
  UnitWeights(ParameterGroup group, const Communicator& shards)
      : group_(std::move(group)),
        shards_(shards.labeled("gather " + group_.name)),
        shard_(group_.flat(group_.layout.shard, MemoryCategory::kParameters)) {
    group_.initialize(shard_, shards.rank());
  }

  /// @brief [padded / S] The weights that this rank owns, and updates.
  [[nodiscard]] const Tensor& shard() const { return shard_; }
  [[nodiscard]] Tensor piece(std::size_t /*piece*/, const Range& place) const override {
    return shard_.slice(0, place);
  }
  /// @brief What the unit is made of.
  [[nodiscard]] const ParameterGroup& group() const { return group_; }

  /// @brief Takes memory for the whole unit and begins to gather it.
  /// @throws InternalError when it is there, or under way.
  /// Collective.   Cost: (S-1)/S bytes of the unit sent per rank.
  void start_gather() override;

  /// @brief Returns when the unit is there: its parameters have their values. May be called again.
  /// @throws InternalError without start_gather().
  void wait() override;

  /// @brief Takes the values away from the unit's parameters and frees the memory of the whole unit.
  /// @throws InternalError without start_gather().
  void release() override;

 private:
  ParameterGroup group_;
  Communicator shards_;  // labelled with the unit
  Tensor shard_;
  Tensor whole_;  // [padded]; undefined: released
  Work gather_;
};

}  // namespace ultra::zero
