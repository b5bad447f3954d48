// The shadow of shared memory. Cells of earlier intervals count as empty, so that a barrier costs
// nothing here.

#include "kernels/simt/emulator/memory/shadow.hpp"

#include <algorithm>

namespace ultra::simt::emulator {
namespace {

constexpr std::size_t kWordBytes = 4;
constexpr std::uint16_t kWarpThreads = 32;

bool is_marked(const ShadowMark& mark) { return mark.warp_epoch != 0; }

// Whether nothing orders two accesses of one interval between barriers: they are made by different
// threads, and not on both sides of a __syncwarp of one warp.
bool collide(const ShadowMark& earlier, const ShadowMark& now) {
  if (!is_marked(earlier) || earlier.thread == now.thread) {
    return false;
  }
  const bool one_warp = earlier.thread / kWarpThreads == now.thread / kWarpThreads;
  return !(one_warp && earlier.warp_epoch < now.warp_epoch);
}

// The bits of `count` bytes from `first` on.
std::uint8_t byte_bits(unsigned first, unsigned count) {
  return static_cast<std::uint8_t>(((1U << count) - 1U) << first);
}

}  // namespace

Shadow::Shadow(std::size_t bytes) : words_((bytes + kWordBytes - 1) / kWordBytes) {}

bool Shadow::is_written(std::size_t offset, std::size_t size, Moment now) const {
  for (std::size_t at = offset; at < offset + size;) {
    const auto first = static_cast<unsigned>(at % kWordBytes);
    const auto count = static_cast<unsigned>(std::min(kWordBytes - first, offset + size - at));
    const Word& word = words_[at / kWordBytes];
    const std::uint8_t bits = byte_bits(first, count);
    if (word.block != now.block || (word.written & bits) != bits) {
      return false;
    }
    at += count;
  }
  return true;
}

void Shadow::forget(std::size_t offset, std::size_t size) {
  for (std::size_t at = offset; at < offset + size; ++at) {
    auto& written = words_[at / kWordBytes].written;
    written = static_cast<std::uint8_t>(written & ~byte_bits(at % kWordBytes, 1));
  }
}

std::optional<Race> Shadow::touch(std::size_t offset, std::size_t size, ShadowUse use,
                                  const ShadowMark& mark, Moment now) {
  std::optional<Race> race;
  for (std::size_t at = offset; at < offset + size;) {
    const auto first = static_cast<unsigned>(at % kWordBytes);
    const auto count = static_cast<unsigned>(std::min(kWordBytes - first, offset + size - at));
    const std::size_t index = at / kWordBytes;
    const auto found = touch_word(index, first, count, use, mark, now.interval);
    if (found && !race) {
      race = found;
    }
    at += count;
  }
  if (use != ShadowUse::kRead) {
    note_written(offset, size, now);
  }
  return race;
}

void Shadow::note_written(std::size_t offset, std::size_t size, Moment now) {
  for (std::size_t at = offset; at < offset + size;) {
    const auto first = static_cast<unsigned>(at % kWordBytes);
    const auto count = static_cast<unsigned>(std::min(kWordBytes - first, offset + size - at));
    Word& word = words_[at / kWordBytes];
    word.written = static_cast<std::uint8_t>((word.block == now.block ? word.written : 0) |
                                             byte_bits(first, count));
    word.block = now.block;
    at += count;
  }
}

std::optional<Race> Shadow::touch_word(std::size_t index, unsigned first_byte, unsigned count,
                                       ShadowUse use, const ShadowMark& mark,
                                       std::uint32_t interval) {
  Word& word = words_[index];
  const bool is_split = word.split_interval == interval;
  if (count == kWordBytes && !is_split) {
    return touch_cell(word.whole, use, mark, interval);
  }
  bytes_.resize(words_.size() * kWordBytes);
  const auto cells = bytes_.begin() + static_cast<std::ptrdiff_t>(index * kWordBytes);
  if (!is_split) {
    word.split_interval = interval;
    std::fill_n(cells, kWordBytes, word.whole);
  }
  std::optional<Race> race;
  for (unsigned byte = first_byte; byte < first_byte + count; ++byte) {
    const auto found = touch_cell(cells[byte], use, mark, interval);
    race = race ? race : found;
  }
  return race;
}

std::optional<Race> Shadow::touch_cell(Cell& cell, ShadowUse use, const ShadowMark& mark,
                                       std::uint32_t interval) {
  if (cell.interval != interval) {
    cell = Cell{.interval = interval};
  }
  const bool harmless_write =
      use == ShadowUse::kRewrite || (use == ShadowUse::kAtomic && cell.only_atomic);
  if (!harmless_write && collide(cell.writer, mark)) {
    return Race{.earlier = cell.writer, .earlier_wrote = true};
  }
  if (use == ShadowUse::kRead) {
    if (!is_marked(cell.reader) || cell.reader.thread == mark.thread) {
      cell.reader = mark;
    } else {
      cell.other_reader = mark;
    }
    return std::nullopt;
  }
  for (const ShadowMark& reader : {cell.reader, cell.other_reader}) {
    if (collide(reader, mark)) {
      return Race{.earlier = reader, .earlier_wrote = false};
    }
  }
  cell.only_atomic = use == ShadowUse::kAtomic && (!is_marked(cell.writer) || cell.only_atomic);
  cell.writer = mark;
  return std::nullopt;
}

}  // namespace ultra::simt::emulator
