// TMA: a box is checked when it is asked for, and moved when somebody cannot go on without it, or waits
// for it.

#include "kernels/simt/emulator/async/boxes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/simt/emulator/async/units.hpp"
#include "kernels/simt/emulator/engine.hpp"

namespace ultra::simt::emulator {
namespace {

constexpr std::uint32_t kUnitBytes = 16;
constexpr std::uint32_t kBoxAlignment = 128;
constexpr std::uintptr_t kSectorBytes = 32;

// Calls visit(address in shared memory, first byte in the row) for each unit of a box's row.
template <typename Visit>
void for_each_unit(const TensorMap& map, std::size_t box, std::uint32_t row_offset,
                   const Visit& visit) {
  for (std::uint32_t byte = 0; byte < map.box_row_bytes(); byte += kUnitBytes) {
    const auto linear = static_cast<std::uint32_t>(box) + row_offset + byte;
    visit(swizzled(linear, map.swizzle), byte);
  }
}

}  // namespace

void Units::expect_running(std::size_t block, const char* what, SourceLine place) const {
  if (block >= engine_.blocks_.size()) {
    fail(Fault::kLaunch, place,
         fmt::format("{} of block {} of its cluster, which has {}; expected one that is there. "
                     "Hint: launch it in clusters",
                     what, block, engine_.blocks_.size()));
  }
  if (engine_.blocks_[block].exited == engine_.block_threads_) {
    fail(Fault::kBarrier, place,
         fmt::format("{} of block {} of its cluster, which has ended; expected one that runs. "
                     "Hint: the blocks of a cluster end together, behind synchronise_cluster()",
                     what, block));
  }
}

void Units::check_box(const BoxMove& box, Operation operation) {
  use();
  const std::uintptr_t offset = offset_of(box.shared);
  const std::uint32_t bytes = box.map->box_bytes();
  if (offset + bytes > engine_.config_->shared_bytes || offset > engine_.config_->shared_bytes) {
    fail(Fault::kOutOfBounds, box.place,
         fmt::format("a box of {} bytes at byte {} of dynamic shared memory, expected it inside of "
                     "the {} bytes",
                     bytes, static_cast<std::ptrdiff_t>(offset), engine_.config_->shared_bytes));
  }
  if (offset % kBoxAlignment != 0) {
    fail(Fault::kMisaligned, box.place,
         fmt::format("a box at byte {} of dynamic shared memory, expected a multiple of {}. Hint: "
                     "alignas(1024) for boxes with a swizzle of 128 bytes",
                     offset, kBoxAlignment));
  }
  if (engine_.is_checked_) {
    for (std::uint32_t row = 0; row < box.map->box_rows(); ++row) {
      const BoxRow part = row_of_box(*box.map, box.position, row);
      if (part.bytes != 0) {
        const Access access{.operation = operation,
                            .space = MemorySpace::kGlobal,
                            .address = part.global,
                            .size = part.bytes,
                            .alignment = box.map->element_bytes,
                            .value = nullptr,
                            .place = box.place};
        engine_.check_global(access, reinterpret_cast<std::uintptr_t>(part.global));
      }
    }
    count_box(box, operation);
  }
}

// One request; the bytes that lie in the tensor and their sectors.
void Units::count_box(const BoxMove& box, Operation operation) {
  std::uint64_t bytes = 0;
  std::uint64_t sectors = 0;
  for (std::uint32_t row = 0; row < box.map->box_rows(); ++row) {
    const BoxRow part = row_of_box(*box.map, box.position, row);
    if (part.bytes != 0) {
      const auto first = reinterpret_cast<std::uintptr_t>(part.global);
      bytes += part.bytes;
      sectors += (first + part.bytes - 1) / kSectorBytes - first / kSectorBytes + 1;
    }
  }
  const AccessKind kind =
      operation == Operation::kLoad ? AccessKind::kGlobalLoad : AccessKind::kGlobalStore;
  engine_.counters_.count_box(engine_.counters_.site_of(box.place, kind, box.map->box_bytes()),
                              bytes, sectors);
}

void Units::fetch_box(const BoxMove& box) {
  check_box(box, Operation::kLoad);
  if (box.blocks == 0) {
    begin_flight(box, block());
  }
  for (std::size_t block = 0; box.blocks >> block != 0; ++block) {
    if ((box.blocks >> block & 1U) != 0) {
      expect_running(block, "fetches a box for shared memory", box.place);
      begin_flight(box, block);
    }
  }
}

void Units::begin_flight(const BoxMove& box, std::size_t block) {
  const std::uintptr_t offset = offset_of(box.shared);
  PhaseBarrier& barrier = find_barrier(box.barrier, block, box.place);
  if (!barrier.is_published) {
    fail(Fault::kRace, box.place,
         fmt::format("a box counts at the {}, which TMA has not been shown; expected "
                     "publish_barriers() by the thread that made it",
                     name_of(barrier)));
  }
  if (engine_.is_checked_) {
    touch(block, offset, box.map->box_bytes(),
          {.event = {.slot = barrier.slot, .count = barrier.phase + 1},
           .actor = Actor::kCopyEngine,
           .operation = Operation::kStore,
           .thread = engine_.running_,
           .place = box.place});
    engine_.shared_[block]->dynamic_array().shadow.forget(offset, box.map->box_bytes());
  }
  flights_.push_back({.map = *box.map,
                      .position = box.position,
                      .block = block,
                      .offset = offset,
                      .barrier = &barrier,
                      .thread = engine_.running_,
                      .place = box.place});
}

bool Units::land_box() {
  if (flights_.empty()) {
    return false;
  }
  const BoxInFlight box = flights_.front();
  flights_.pop_front();
  engine_.make_running(box.thread);  // messages name who asked for it
  land(box);
  return true;
}

void Units::land(const BoxInFlight& box) {
  expect_running(box.block, "a box lands in shared memory", box.place);
  std::byte* const memory = memory_of(box.block);
  std::vector<std::byte> bytes(box.map.box_row_bytes());
  for (std::uint32_t row = 0; row < box.map.box_rows(); ++row) {
    const BoxRow part = row_of_box(box.map, box.position, row);
    std::ranges::fill(bytes, std::byte{0});
    if (part.bytes != 0) {
      std::memcpy(bytes.data() + part.skipped_bytes, part.global, part.bytes);
    }
    for_each_unit(box.map, box.offset, part.box_offset,
                  [&](std::uint32_t address, std::uint32_t byte) {
                    std::memcpy(memory + address, bytes.data() + byte, kUnitBytes);
                  });
  }
  if (engine_.is_checked_) {
    engine_.shared_[box.block]->dynamic_array().shadow.note_written(box.offset, box.map.box_bytes(),
                                                                    engine_.blocks_[box.block].now);
  }
  box.barrier->come += box.map.box_bytes();
  complete_if_complete(*box.barrier, box.place);
}

std::string Units::box_on_its_way(std::size_t offset, std::size_t size) const {
  const auto found = std::ranges::find_if(flights_, [&](const BoxInFlight& box) {
    return box.block == block() && box.offset < offset + size &&
           offset < box.offset + box.map.box_bytes();
  });
  return found == flights_.end()
             ? std::string()
             : fmt::format("the box of {}:{}, which counts at the {}", found->place.file,
                           found->place.line, name_of(*found->barrier));
}

void Units::store_box(const BoxMove& box) {
  check_box(box, Operation::kStore);
  StoreQueue& queue = stores_[engine_.running_];
  if (queue.slot == 0) {
    queue.slot = order_.new_slot();
  }
  const std::uintptr_t offset = offset_of(box.shared);
  if (engine_.is_checked_) {
    touch(block(), offset, box.map->box_bytes(),
          {.event = {.slot = queue.slot, .count = queue.groups + 1},
           .actor = Actor::kCopyEngine,
           .operation = Operation::kLoad,
           .thread = engine_.running_,
           .place = box.place});
    const SharedArray& array = engine_.shared_[block()]->dynamic_array();
    if (!array.shadow.is_written(offset, box.map->box_bytes(), engine_.block().now)) {
      fail(Fault::kUninitialised, box.place,
           fmt::format("stores a box at byte {} of dynamic shared memory, of which bytes are not "
                       "written; expected all. Hint: also what lies outside of the tensor",
                       offset));
    }
  }
  queue.boxes.push_back({.map = *box.map,
                         .position = box.position,
                         .block = block(),
                         .offset = offset,
                         .group = queue.groups,
                         .place = box.place});
}

void Units::commit_boxes() {
  use();
  ++stores_[engine_.running_].groups;
}

void Units::wait_for_boxes(std::uint32_t pending, SourceLine) {
  use();
  StoreQueue& queue = stores_[engine_.running_];
  const auto is_read = [&](const StoredBox& box) { return box.group + pending < queue.groups; };
  for (const StoredBox& box : queue.boxes) {
    if (is_read(box)) {
      write_out(box);
    }
  }
  std::erase_if(queue.boxes, is_read);
  if (queue.slot != 0 && queue.groups > pending) {
    order_.learn(warp(), {.slot = queue.slot, .count = queue.groups - pending});
  }
}

void Units::write_out(const StoredBox& box) {
  const std::byte* const memory = memory_of(box.block);
  std::vector<std::byte> bytes(box.map.box_row_bytes());
  for (std::uint32_t row = 0; row < box.map.box_rows(); ++row) {
    const BoxRow part = row_of_box(box.map, box.position, row);
    for_each_unit(box.map, box.offset, part.box_offset,
                  [&](std::uint32_t address, std::uint32_t byte) {
                    std::memcpy(bytes.data() + byte, memory + address, kUnitBytes);
                  });
    if (part.bytes != 0) {
      std::memcpy(part.global, bytes.data() + part.skipped_bytes, part.bytes);
    }
  }
}

}  // namespace ultra::simt::emulator
