// Where elements lie in shared memory: swizzles, the layouts of wgmma's descriptors, and the rows of
// TMA's boxes, each against a formula written from the other end.
// Covers: kernels/simt/emulator/async/swizzle.hpp kernels/simt/emulator/async/tensor_map.hpp

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "kernels/simt/emulator/async/matrix_descriptor.hpp"
#include "kernels/simt/emulator/async/swizzle.hpp"
#include "kernels/simt/emulator/async/tensor_map.hpp"
#include "tests/kernels/hopper/tile.hpp"
#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace layouts_test {

using emulator::TensorMap;

constexpr std::uint32_t kUnit = 16;

TEST(Swizzles, Rows128BytesLongTakeTheUnitOfTheirNumber) {
  for (std::uint32_t row = 0; row < 64; ++row) {
    for (std::uint32_t unit = 0; unit < 8; ++unit) {
      EXPECT_EQ(swizzled(row * 128 + unit * kUnit, Swizzle::k128),
                row * 128 + (unit ^ row % 8) * kUnit);
    }
  }
}

// With shorter rows, several share the 128 bytes of a line of banks, and its number counts.
TEST(Swizzles, ShorterRowsTakeTheUnitOfTheirLine) {
  for (std::uint32_t row = 0; row < 64; ++row) {
    for (std::uint32_t unit = 0; unit < 4; ++unit) {
      EXPECT_EQ(swizzled(row * 64 + unit * kUnit, Swizzle::k64),
                row * 64 + (unit ^ row / 2 % 4) * kUnit);
    }
    for (std::uint32_t unit = 0; unit < 2; ++unit) {
      EXPECT_EQ(swizzled(row * 32 + unit * kUnit, Swizzle::k32),
                row * 32 + (unit ^ row / 4 % 2) * kUnit);
    }
    EXPECT_EQ(swizzled(row * kUnit, Swizzle::kNone), row * kUnit);
  }
}

TEST(Swizzles, EightRowsOfAColumnOfUnitsMeetEachBankOnce) {
  for (std::uint32_t unit = 0; unit < 8; ++unit) {
    std::set<std::uint32_t> banks;
    for (std::uint32_t row = 0; row < 8; ++row) {
      banks.insert(swizzled(row * 128 + unit * kUnit, Swizzle::k128) % 128);
    }
    EXPECT_EQ(banks.size(), 8U);
  }
}

class Layouts : public ::testing::TestWithParam<std::tuple<Swizzle, Major>> {};

TEST_P(Layouts, LeadToEachElement) {
  const auto [swizzle, major] = GetParam();
  const Tile tile{.swizzle = swizzle, .major = major, .along = 128, .depth = 64};
  constexpr std::uint32_t kStart = 4096;
  const MatrixDescriptor descriptor = tile.describe(kStart);
  const bool by_rows = major == Major::kRows;
  std::set<std::uint32_t> places;
  // An instruction has 16 elements of the depth; by rows they lie in one row of a unit (or two units).
  for (std::uint32_t row = 0; row < tile.along; row += by_rows ? 1 : 8) {
    for (std::uint32_t k = 0; k < 16; k += by_rows ? 8 : 1) {
      const std::uint32_t address = descriptor.address_of(major, row, k);
      for (std::uint32_t i = 0; i < 8; ++i) {
        const std::uint32_t place = by_rows ? tile.place_of(row, k + i) : tile.place_of(row + i, k);
        ASSERT_EQ(address + 2 * i, kStart + place) << row << ", " << k;
        places.insert(place);
      }
    }
  }
  EXPECT_EQ(places.size(), std::size_t{tile.along} * 16);
}

INSTANTIATE_TEST_SUITE_P(All, Layouts,
                         ::testing::Combine(::testing::Values(Swizzle::kNone, Swizzle::k32,
                                                              Swizzle::k64, Swizzle::k128),
                                            ::testing::Values(Major::kRows, Major::kDepth)));

// A tensor whose element at an index has the bytes' offset that the index says.
TensorMap map_of(std::vector<std::uint64_t> extents, std::vector<std::uint32_t> box) {
  TensorMap map{.address = reinterpret_cast<std::byte*>(0x10000),
                .element_bytes = 2,
                .rank = static_cast<std::uint32_t>(extents.size())};
  std::uint64_t stride = 2;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    map.extents[d] = extents[d];
    map.box[d] = box[d];
    map.byte_strides[d] = stride;
    stride = (stride * extents[d] + 15) / 16 * 16;
  }
  return map;
}

TEST(TensorMaps, BoxesAreCutWhereTheTensorEnds) {
  const TensorMap map = map_of({20, 6, 3}, {16, 4, 2});
  check_tensor_map(map);
  EXPECT_EQ(map.box_bytes(), 16U * 4 * 2 * 2);
  for (int x = -20; x <= 24; x += 4) {
    for (int y = -5; y <= 7; ++y) {
      for (int z = -2; z <= 4; ++z) {
        for (std::uint32_t row = 0; row < 8; ++row) {
          const emulator::BoxRow found = row_of_box(map, {x, y, z}, row);
          const int at_y = y + static_cast<int>(row % 4);
          const int at_z = z + static_cast<int>(row / 4);
          std::vector<int> inside;
          for (int i = 0; i < 16; ++i) {
            if (x + i >= 0 && x + i < 20 && at_y >= 0 && at_y < 6 && at_z >= 0 && at_z < 3) {
              inside.push_back(i);
            }
          }
          EXPECT_EQ(found.box_offset, row * 32);
          ASSERT_EQ(found.bytes, inside.size() * 2);
          if (!inside.empty()) {
            EXPECT_EQ(found.skipped_bytes, static_cast<std::uint32_t>(inside.front()) * 2);
            EXPECT_EQ(found.global - map.address, 2 * (x + inside.front()) +
                                                      static_cast<int>(map.byte_strides[1]) * at_y +
                                                      static_cast<int>(map.byte_strides[2]) * at_z);
          }
        }
      }
    }
  }
}

TEST(TensorMaps, RefuseWhatTheDriverRefuses) {
  const auto refused = [](const std::string& part, const TensorMap& map) {
    expect_fault(Fault::kLaunch, {part, "expected"}, [&] { check_tensor_map(map); });
  };
  const TensorMap good = map_of({64, 8}, {64, 8});
  EXPECT_NO_THROW(check_tensor_map(good));
  TensorMap map = good;
  map.rank = 6;
  refused("6 dimensions", map);
  map = good;
  map.address += 8;
  refused("multiple of 16 bytes", map);
  map = good;
  map.byte_strides[1] = 24;
  refused("stride of 24 bytes", map);
  map = good;
  map.box[1] = 257;
  refused("boxes of 257 elements", map);
  map = good;
  map.extents[1] = 0;
  refused("extent 0", map);
  map = good;
  map.box[0] = 4;
  refused("rows of 8 bytes", map);
  map = good;
  map.swizzle = Swizzle::k64;
  refused("rows of 128 bytes and a swizzle of 64", map);
}

}  // namespace layouts_test
}  // namespace ultra::simt::test
