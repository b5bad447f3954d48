#include "chapters/04_zero/prefetch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/errors.hpp"

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
    for (const std::size_t unit : chunk_.of(part)) uses_.push_back({.unit = unit, .kind = kind});
  }

  const ChunkUnits& chunk_;
  Range blocks_;  // the parts that are blocks
  std::size_t recompute_every_;
  std::vector<UnitUse>& uses_;
};

}  // namespace

std::vector<std::size_t> ChunkUnits::of(std::size_t part) const {
  std::vector<std::size_t> read;
  if (units[part]) read.push_back(*units[part]);
  if (tied && part == blocks.end) read.push_back(*tied);
  return read;
}

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

void Prefetch::follow(std::vector<UnitUse> uses, Reshard reshard) {
  ensure(open_.empty(), "units are followed along other passes between steps");
  uses_ = std::move(uses);
  reshard_ = reshard;
  begun_ = 0;
  std::size_t units = 0;
  for (const UnitUse& use : uses_) units = std::max(units, use.unit + 1);
  asked_for_.assign(units, false);
  forwards_.assign(units, 0);
}

std::size_t Prefetch::next_use(std::size_t unit) {
  if (begun_ == uses_.size()) begun_ = 0;
  if (begun_ == uses_.size() || uses_[begun_].unit != unit) {
    throw InternalError(
        fmt::format("unit {} is used where the schedule has use {} of {}, of another unit", unit,
                    begun_, uses_.size()));
  }
  return begun_++;
}

void Prefetch::gather(std::size_t unit) {
  open_.push_back(next_use(unit));
  begin_use(open_.back());
}

void Prefetch::ask_for(std::size_t use) {
  const std::size_t unit = uses_[use].unit;
  if (asked_for_[unit]) return;
  asked_for_[unit] = true;
  actions_.start_gather(uses_[use]);
}

void Prefetch::free(std::size_t unit) {
  const auto open = std::ranges::find_if(open_, [&](auto use) { return uses_[use].unit == unit; });
  ensure(open != open_.end(), "a use that ends has begun");
  const std::size_t use = *open;
  open_.erase(open);
  if (stays(use)) return;
  asked_for_[unit] = false;
  actions_.release(unit);
}

}  // namespace ultra::zero
