#include <utility>

#include "chapters/04_zero/offload/offloaded_states.hpp"
#include "chapters/04_zero/units.hpp"
#include "common/base/errors.hpp"
#include "common/comm/work.hpp"

namespace ultra::zero {
namespace {

/// Elements of a rank's shard that are not padding: they stand at its beginning.
std::size_t stored_elements(const FlatLayout& layout, int rank) {
  const std::vector<Piece> pieces = pieces_of(layout, rank);
  return pieces.empty() ? 0 : pieces.back().place.end;
}

// [region offloaded_unit]
class OffloadedUnit final : public ShardedUnit {
 public:
  OffloadedUnit(const ParameterGroup& group, const Communicator& shards, OffloadedStates& states,
                std::size_t first)
      : group_(group),
        shards_(shards.labeled("gather " + group.name)),
        states_(states),
        elements_{first, first + stored_elements(group.layout, shards.rank())} {
    const Tensor initial = empty_shard();
    group_.initialize(initial, shards.rank());
    states_.write_weights(elements_, stored_part(initial));
  }

  void start_fetch() override {
    shard_ = empty_shard();
    shard_.slice(0, {elements_.size(), shard_.numel()}).fill(0.0);  // the padding
    fetch_ = states_.read_weights_async(elements_, stored_part(shard_));
  }

  void start_gather() override {
    if (!shard_.defined()) start_fetch();
    states_.finish_read(fetch_, "read weights of " + group_.name);
    whole_ = group_.flat(group_.layout.padded, MemoryCategory::kCommunication);
    gather_ = shards_.all_gather(shard_, whole_);
  }

  void wait() override {
    ensure(whole_.defined(), "start_gather() comes before wait()");
    if (!shard_.defined()) return;  // waited for already
    gather_.wait();
    gather_ = Work();  // or its handle would keep the shard
    shard_ = Tensor();
    for (std::size_t i = 0; i < group_.parameters.size(); ++i) {
      group_.parameters[i]->set_value(group_.view(whole_, i));
    }
  }

  void release() override {
    for (nn::Parameter* parameter : group_.parameters) parameter->drop_value();
    whole_ = Tensor();
  }

  Tensor piece(std::size_t piece, const Range& /*place*/) const override {
    return states_.weights_in_window(piece);
  }

 private:
  [[nodiscard]] Tensor empty_shard() const {
    return group_.flat(group_.layout.shard, MemoryCategory::kParameters);
  }
  [[nodiscard]] Tensor stored_part(const Tensor& shard) const {
    return shard.slice(0, {0, elements_.size()});
  }

  ParameterGroup group_;
  Communicator shards_;  // labelled with the unit
  OffloadedStates& states_;
  Range elements_;     // of all that states_ has
  Tensor shard_;       // undefined: not on the device
  WeightsRead fetch_;  // into shard_
  Tensor whole_;       // [padded]; undefined: released
  Work gather_;
};
// [/region]

}  // namespace

Units offloaded_units(const std::vector<ParameterGroup>& groups, const Communicator& shards,
                      OffloadedStates& states) {
  Units units;
  std::size_t first = 0;  // element of those that this rank owns
  for (const ParameterGroup& group : groups) {
    units.push_back(std::make_unique<OffloadedUnit>(group, shards, states, first));
    first += stored_elements(group.layout, shards.rank());
  }
  return units;
}

ShardFetches::ShardFetches(const std::vector<nn::Model*>& chunks,
                           const std::vector<ChunkUnits>& parts, const Units& units,
                           std::size_t ahead)
    : prefetch_(ahead,
                {.start_gather = [&units](const UnitUse& use) { units[use.unit]->start_fetch(); },
                 .wait = [](std::size_t) {},
                 .release = [](std::size_t) {}}) {
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const auto around = [this, &chunk = parts[c]](const nn::PartCall& call) {
      prefetch_.gather(chunk.of(call.part));
      call.compute();
      prefetch_.free(chunk.of(call.part));
    };
    hooks_.push_back(chunks[c]->add_part_hook({.forward = around, .backward = around}));
  }
}

}  // namespace ultra::zero
