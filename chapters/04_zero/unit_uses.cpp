#include "chapters/04_zero/unit_uses.hpp"

namespace ultra::zero {
namespace {

/// The uses of one chunk's units, pass by pass.
class ChunkUses {
 public:
  ChunkUses(const ChunkUnits& chunk, std::size_t recompute_every, std::vector<UnitUse>& uses)
      : chunk_(chunk), blocks_(chunk.blocks), recompute_every_(recompute_every), uses_(uses) {}

  void forward() const {
    for (std::size_t part = 0; part < parts(); ++part) add(part, UseKind::kForward);
  }

  void backward() const {
    // The parts of the head are used together, in forward order.
    for (std::size_t part = blocks_.end; part < parts(); ++part) {
      add(part, UseKind::kBackward);
    }
    for (std::size_t part = blocks_.end; part-- > 0;) {
      if (ends_group(part)) recompute(part);
      add(part, UseKind::kBackward);
    }
  }

 private:
  [[nodiscard]] std::size_t parts() const { return chunk_.units.size(); }

  [[nodiscard]] bool ends_group(std::size_t part) const {
    if (recompute_every_ == 0 || part < blocks_.begin || part >= blocks_.end) return false;
    return part + 1 == blocks_.end || (part + 1 - blocks_.begin) % recompute_every_ == 0;
  }

  void recompute(std::size_t last) const {
    const std::size_t first = last - (last - blocks_.begin) % recompute_every_;
    for (std::size_t part = first; part <= last; ++part) add(part, UseKind::kRecomputation);
  }

  void add(std::size_t part, UseKind kind) const {
    chunk_.for_each_of(part,
                       [&](std::size_t unit) { uses_.push_back({.unit = unit, .kind = kind}); });
  }

  const ChunkUnits& chunk_;
  Range blocks_;  // the parts that are blocks
  std::size_t recompute_every_;
  std::vector<UnitUse>& uses_;
};

}  // namespace

ChunkUnits ChunkUnits::whole(std::size_t units) {
  ChunkUnits chunk{.units = {}, .blocks = {1, units - 1}};
  for (std::size_t unit = 0; unit < units; ++unit) chunk.units.emplace_back(unit);
  return chunk;
}

std::vector<UnitUse> unit_uses(std::span<const train::Action> schedule,
                               std::span<const ChunkUnits> chunks, std::size_t recompute_every) {
  std::vector<UnitUse> uses;
  for (const train::Action& action : schedule) {
    const ChunkUses chunk(chunks[action.chunk], recompute_every, uses);
    if (action.kind == train::ActionKind::kForward) chunk.forward();
    if (action.kind == train::ActionKind::kBackward ||
        action.kind == train::ActionKind::kBackwardInput) {
      chunk.backward();
    }
  }
  return uses;
}

}  // namespace ultra::zero
