// wgmma: a warp's quarter of each product is checked when it is issued, and added when its warp waits.
// Registers of sums hold NaN in between.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/simt/emulator/async/units.hpp"
#include "kernels/simt/emulator/engine.hpp"
#include "kernels/simt/small_floats.cuh"

namespace ultra::simt::emulator {
namespace {

constexpr std::uint32_t kRows = 16;   // of a warp
constexpr std::uint32_t kDepth = 16;  // elements of 16 bits
constexpr std::uint32_t kChunk = 8;   // of them in 16 bytes
constexpr std::uint32_t kChunkBytes = 16;
constexpr std::size_t kWarps = 4;  // of a warpgroup
constexpr std::size_t kLanes = 32;
// A NaN that any arithmetic changes: it is a signalling one.
constexpr float kInFlight = std::bit_cast<float>(0x7fa0deadU);

bool is_same(const Product& left, const Product& right) {
  return left.columns == right.columns && left.a == right.a && left.b == right.b &&
         left.a_major == right.a_major && left.b_major == right.b_major &&
         left.adds == right.adds && left.element == right.element &&
         (left.left == nullptr) == (right.left == nullptr);
}

// An element of 16 bits.
float to_float(std::uint32_t bits, Element element) {
  return element == Element::kF16
             ? static_cast<float>(half::from_bits(static_cast<std::uint16_t>(bits)))
             : std::bit_cast<float>(bits << 16);
}

// Element (row, depth) of a warp's 16 x 16 quarter of a, from registers as mma.sync has them.
std::vector<float> matrix_of(const std::array<std::array<unsigned, 4>, 32>& left, Element element) {
  std::vector<float> matrix(std::size_t{kRows} * kDepth);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t part = 0; part < 4; ++part) {
      const std::size_t row = lane / 4 + part % 2 * 8;
      const std::size_t depth = lane % 4 * 2 + part / 2 * 8;
      matrix[row * kDepth + depth] = to_float(left[lane][part] & 0xffffU, element);
      matrix[row * kDepth + depth + 1] = to_float(left[lane][part] >> 16, element);
    }
  }
  return matrix;
}

// The elements of a right factor beside a left one of these.
Element right_of(Element left) { return left == Element::kE5m2ByE4m3 ? Element::kE4m3 : left; }

// A factor's elements, of which 16 bits are one or two.
std::vector<float> values_of(const std::vector<std::uint16_t>& words, Element element) {
  std::vector<float> values;
  values.reserve(2 * words.size());
  for (const std::uint16_t word : words) {
    if (element == Element::kBf16 || element == Element::kF16) {
      values.push_back(to_float(word, element));
      continue;
    }
    for (const int shift : {0, 8}) {
      const auto byte = static_cast<std::uint8_t>(word >> shift);
      values.push_back(element == Element::kE4m3 ? static_cast<float>(fp8_e4m3::from_bits(byte))
                                                 : static_cast<float>(fp8_e5m2::from_bits(byte)));
    }
  }
  return values;
}

}  // namespace

void Units::begin_products() {
  use();
  ++products_[warp()].fences;
}

void Units::multiply_async(std::span<const Product* const, 32> lanes, SourceLine place) {
  use();
  const Product& product = *lanes[0];
  if (std::ranges::any_of(lanes, [&](const Product* own) { return !is_same(*own, product); })) {
    fail(Fault::kWarpOperation, place,
         "lanes of a warp multiply different matrices, expected the same descriptors in all");
  }
  expect_same_in_warpgroup(product, place);
  WarpProducts& own = products_[warp()];
  Accumulator& sums = accumulator_of(own, lanes, place);
  const auto quarter = static_cast<std::uint32_t>(warp() % kWarps) * kRows;
  if (engine_.is_checked_) {
    if (product.left == nullptr) {
      read_matrix(product.a, product.a_major, quarter, kRows, place);
    }
    read_matrix(product.b, product.b_major, 0, product.columns, place);
  }
  ProductInFlight flight{.product = product,
                         .sums = &sums,
                         .left_registers = {},
                         .left = {},
                         .group = own.groups,
                         .place = place};
  for (std::size_t lane = 0; product.left != nullptr && lane < kLanes; ++lane) {
    flight.left_registers[lane] = lanes[lane]->left;
    std::copy_n(lanes[lane]->left, 4, flight.left[lane].begin());
  }
  ++sums.in_flight;
  own.in_flight.push_back(flight);
}

void Units::expect_same_in_warpgroup(const Product& product, SourceLine place) {
  if (warp() / kWarps * kWarps + kWarps > engine_.warps_.size() || warps_of_block() % kWarps != 0) {
    fail(Fault::kLaunch, place,
         fmt::format("a block of {} threads multiplies with wgmma, expected whole warpgroups of "
                     "128",
                     engine_.block_threads_));
  }
  const std::size_t first = warp() / kWarps * kWarps;
  std::vector<Product>& issued = products_[first].issued_by_group;
  const std::size_t number = products_[warp()].issued++;
  if (number == issued.size()) {
    issued.push_back(product);
  } else if (!is_same(issued[number], product)) {
    fail(Fault::kWarpOperation, place,
         "the warps of a warpgroup multiply different matrices, expected the same descriptors in "
         "all four. Hint: descriptors begin at the warpgroup's rows, not at the warp's");
  }
}

// Takes the lanes' registers over, unless an earlier product has them.
Accumulator& Units::accumulator_of(WarpProducts& own, std::span<const Product* const, 32> lanes,
                                   SourceLine place) {
  const bool has_fence = own.fences > own.fences_at_wait;
  const bool is_known = own.sums.contains(lanes[0]->sums);
  Accumulator& sums = own.sums[lanes[0]->sums];
  if (sums.in_flight > 0) {
    return sums;
  }
  const std::size_t count = lanes[0]->columns / 2;
  std::vector<float> values(kLanes * count);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::copy_n(lanes[lane]->sums, count,
                values.begin() + static_cast<std::ptrdiff_t>(lane * count));
  }
  const bool is_as_given_back =
      is_known && sums.values.size() == values.size() &&
      std::memcmp(sums.values.data(), values.data(), values.size() * sizeof(float)) == 0;
  if (!has_fence && !(is_as_given_back && lanes[0]->left == nullptr)) {
    fail(Fault::kRace, place,
         "multiplies with registers that other instructions have written, and no fence behind "
         "them; expected wgmma.fence. Hint: begin_products() before the first product, and after "
         "each change of sums or of a in registers");
  }
  sums.count = count;
  sums.values = std::move(values);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sums.registers[lane] = lanes[lane]->sums;
    std::fill_n(lanes[lane]->sums, count, kInFlight);
  }
  return sums;
}

// Checks that what a product reads is there, and orders the read with writes.
void Units::read_matrix(std::uint64_t descriptor, Major major, std::uint32_t first,
                        std::uint32_t rows, SourceLine place) {
  const MatrixDescriptor matrix = decode_descriptor(descriptor);
  if (matrix.base_offset != 0) {
    fail(Fault::kLaunch, place,
         "a descriptor with a base offset, which is not modelled; expected tiles at multiples of "
         "the swizzle's pattern: 1024 bytes for a swizzle of 128");
  }
  SharedArray& array = engine_.shared_[block()]->dynamic_array();
  const WarpProducts& own = products_[warp()];
  const LoggedAccess access{.event = {.slot = own.slot, .count = own.groups + 1},
                            .actor = Actor::kTensorCores,
                            .operation = Operation::kLoad,
                            .thread = engine_.running_,
                            .place = place};
  const auto read_chunk = [&](std::uint32_t along, std::uint32_t depth) {
    const std::uint32_t address = matrix.address_of(major, along, depth);
    if (address + kChunkBytes > array.bytes) {
      fail(Fault::kOutOfBounds, place,
           fmt::format("a descriptor leads to byte {} of dynamic shared memory, expected it inside "
                       "of its {} bytes. Hint: check its offsets",
                       address, array.bytes));
    }
    if (const std::string box = box_on_its_way(address, kChunkBytes); !box.empty()) {
      fail(Fault::kRace, place,
           fmt::format("multiplies byte {} of dynamic shared memory, to which {} is on its way; "
                       "expected a wait. Hint: wait for the phase of that barrier (which parity is "
                       "it?)",
                       address, box));
    }
    touch(block(), address, kChunkBytes, access);
    if (!array.shadow.is_written(address, kChunkBytes, engine_.block().now)) {
      fail(
          Fault::kUninitialised, place,
          fmt::format(
              "multiplies byte {} of dynamic shared memory, which nobody has written; "
              "expected values. Hint: wait for the box that brings them (which parity is it?), and "
              "check the descriptor's start and offsets",
              address));
    }
  };
  const std::uint32_t step_along = major == Major::kDepth ? kChunk : 1;
  const std::uint32_t step_depth = major == Major::kDepth ? 1 : kChunk;
  for (std::uint32_t along = first; along < first + rows; along += step_along) {
    for (std::uint32_t depth = 0; depth < kDepth; depth += step_depth) {
      read_chunk(along, depth);
    }
  }
}

// A matrix in shared memory as [row][depth], in words of 16 bits.
std::vector<std::uint16_t> Units::gather_matrix(std::uint64_t descriptor, Major major,
                                                std::uint32_t first, std::uint32_t rows) const {
  const MatrixDescriptor matrix = decode_descriptor(descriptor);
  const std::byte* const memory = memory_of(block());
  std::vector<std::uint16_t> words(std::size_t{rows} * kDepth);
  const bool by_depth = major == Major::kDepth;
  for (std::uint32_t along = 0; along < rows; along += by_depth ? kChunk : 1) {
    for (std::uint32_t depth = 0; depth < kDepth; depth += by_depth ? 1 : kChunk) {
      const std::uint32_t address = matrix.address_of(major, first + along, depth);
      std::array<std::uint16_t, kChunk> chunk{};
      if (address + kChunkBytes <= kMostSharedBytes) {
        std::memcpy(chunk.data(), memory + address, kChunkBytes);
      }
      for (std::uint32_t i = 0; i < kChunk; ++i) {
        const std::uint32_t row = by_depth ? along + i : along;
        const std::uint32_t k = by_depth ? depth : depth + i;
        words[row * kDepth + k] = chunk[i];
      }
    }
  }
  return words;
}

void Units::commit_products() {
  use();
  ++products_[warp()].groups;
}

void Units::wait_for_products(std::uint32_t pending, SourceLine place) {
  use();
  WarpProducts& own = products_[warp()];
  own.fences_at_wait = own.fences;
  while (!own.in_flight.empty() && own.in_flight.front().group + pending < own.groups) {
    const ProductInFlight& product = own.in_flight.front();
    expect_untouched(product, place);
    add(product);
    Accumulator& sums = *product.sums;
    own.in_flight.pop_front();
    if (--sums.in_flight == 0) {
      give_back(sums, place);
    }
  }
  if (own.groups > pending) {
    order_.learn(warp(), {.slot = own.slot, .count = own.groups - pending});
  }
}

// With g = lane / 4 and t = lane % 4, register 4 i + 2 l + e is row g + 8 l, column 8 i + 2 t + e.
void Units::add(const ProductInFlight& flight) {
  const Product& product = flight.product;
  const auto quarter = static_cast<std::uint32_t>(warp() % kWarps) * kRows;
  const std::vector<float> a =
      product.left != nullptr
          ? matrix_of(flight.left, flight.product.element)
          : values_of(gather_matrix(product.a, product.a_major, quarter, kRows), product.element);
  const std::vector<float> b = values_of(
      gather_matrix(product.b, product.b_major, 0, product.columns), right_of(product.element));
  const std::size_t depth = a.size() / kRows;
  Accumulator& sums = *flight.sums;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    float* const own = &sums.values[lane * sums.count];
    for (std::size_t index = 0; index < sums.count; ++index) {
      const float* const row = &a[(lane / 4 + index / 2 % 2 * 8) * depth];
      const float* const column = &b[(index / 4 * 8 + lane % 4 * 2 + index % 2) * depth];
      float sum = product.adds ? own[index] : 0.0F;
      for (std::size_t k = 0; k < depth; ++k) {
        sum += row[k] * column[k];
      }
      own[index] = sum;
    }
  }
}

void Units::expect_untouched(const ProductInFlight& flight, SourceLine place) const {
  for (std::size_t lane = 0; flight.product.left != nullptr && lane < kLanes; ++lane) {
    if (!std::equal(flight.left[lane].begin(), flight.left[lane].end(),
                    flight.left_registers[lane])) {
      fail(Fault::kRace, place,
           fmt::format("the registers of a of the product at {}:{} have changed before this wait; "
                       "expected them as they were. Hint: wgmma reads them until it is waited for",
                       flight.place.file, flight.place.line));
    }
  }
}

void Units::give_back(Accumulator& sums, SourceLine place) const {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    float* const registers = sums.registers[lane];
    const bool is_untouched = std::all_of(registers, registers + sums.count, [](float value) {
      return std::bit_cast<std::uint32_t>(value) == std::bit_cast<std::uint32_t>(kInFlight);
    });
    if (!is_untouched) {
      fail(Fault::kRace, place,
           "registers of sums have been written while products were added to them; expected "
           "nobody to touch them before this wait. Hint: wait for the group first");
    }
    std::copy_n(&sums.values[lane * sums.count], sums.count, registers);
  }
}

}  // namespace ultra::simt::emulator
