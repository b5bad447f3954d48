// What one request of a warp costs: sectors of global memory, passes over the banks of shared memory.

#include <algorithm>
#include <bit>

#include "kernels/simt/emulator/counters.hpp"

namespace ultra::simt::emulator {
namespace {

constexpr std::uint64_t kSectorBytes = 32;
constexpr std::uint64_t kWordBytes = 4;
constexpr std::size_t kBanks = 32;

// Values without repetition, of which neighbours are often equal.
template <std::size_t capacity>
class DistinctValues {
 public:
  void add(std::uint64_t value) {
    // Most warps go through memory upwards.
    if (count_ == 0 || value > largest_) {
      largest_ = value;
      values_[count_++] = value;
      return;
    }
    if (values_[count_ - 1] == value) {
      return;
    }
    const auto end = values_.begin() + static_cast<std::ptrdiff_t>(count_);
    if (std::find(values_.begin(), end, value) == end) {
      values_[count_++] = value;
    }
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::uint64_t operator[](std::size_t index) const { return values_[index]; }

 private:
  std::array<std::uint64_t, capacity> values_;
  std::size_t count_ = 0;
  std::uint64_t largest_ = 0;
};

// The passes for some lanes of a warp, whose words all fit 32 banks once.
Wavefronts passes(const std::array<std::uint64_t, 32>& addresses, LaneMask lanes,
                  std::size_t size) {
  DistinctValues<64> words;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const std::uint64_t first = addresses[static_cast<std::size_t>(std::countr_zero(rest))];
    for (std::uint64_t word = first / kWordBytes; word <= (first + size - 1) / kWordBytes; ++word) {
      words.add(word);
    }
  }
  std::array<std::uint8_t, kBanks> words_of_bank{};
  std::uint8_t most = 0;
  for (std::size_t index = 0; index < words.count(); ++index) {
    most = std::max(most, ++words_of_bank[words[index] % kBanks]);
  }
  return {.needed = most, .ideal = (words.count() + kBanks - 1) / kBanks};
}

}  // namespace

std::uint64_t count_sectors(const std::array<std::uint64_t, 32>& addresses, LaneMask lanes,
                            std::size_t size) {
  DistinctValues<64> sectors;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const std::uint64_t first = addresses[static_cast<std::size_t>(std::countr_zero(rest))];
    sectors.add(first / kSectorBytes);
    sectors.add((first + size - 1) / kSectorBytes);
  }
  return sectors.count();
}

Wavefronts count_wavefronts(const std::array<std::uint64_t, 32>& addresses, LaneMask lanes,
                            std::size_t size) {
  const std::size_t parts = std::clamp<std::size_t>(size / kWordBytes, 1, 4);
  const std::size_t lanes_per_part = 32 / parts;
  const LaneMask part_mask = kWholeWarp >> (32 - lanes_per_part);
  Wavefronts sum{.needed = 0, .ideal = 0};
  for (std::size_t part = 0; part < parts; ++part) {
    const auto [needed, ideal] =
        passes(addresses, lanes & part_mask << (part * lanes_per_part), size);
    sum.needed += needed;
    sum.ideal += ideal;
  }
  return sum;
}

}  // namespace ultra::simt::emulator
