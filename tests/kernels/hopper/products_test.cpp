// wgmma on the emulator multiplies what lies where the PTX ISA says, in every layout, against a loop.

#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "kernels/hopper/wgmma_registers.cuh"
#include "tests/kernels/hopper/tile.hpp"
#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace products_test {

constexpr std::uint32_t kRows = 64;
constexpr std::uint32_t kDepth = 16;
constexpr std::uint32_t kLeftBytes = 8192;  // a's place in shared memory; b lies behind it

// What one warpgroup multiplies.
struct Task {
  std::uint64_t a;
  std::uint64_t b;
  Major a_major;
  Major b_major;
  bool from_registers;
  bool adds;
  emulator::Element element;
};

// Copies a and b, as they shall lie, into shared memory, and multiplies 1 + [64, 16] [16, 2 count].
// a_rows is a by rows, for the registers.
template <int count>
__global__ void product_kernel(const uint4* image, int units, const unsigned* a_rows, float* c,
                               Task task) {
  const int thread = static_cast<int>(threadIdx.x);
  auto* const shared = dynamic_shared<uint4>();
  for (int i = thread; i < units; i += 128) {
    sts(&shared[i], ldg(&image[i]));
  }
  const int group = thread % 32 / 4;
  const int pair = thread % 4;
  unsigned left[4];
  for (int part = 0; part < 4; ++part) {
    const int row = thread / 32 * 16 + group + part % 2 * 8;
    left[part] = ldg(&a_rows[row * 8 + pair + part / 2 * 4]);
  }
  kernels::hopper::show_to_tma();
  __syncthreads();
  float sums[count];
  for (float& sum : sums) {
    sum = 1.0F;
  }
  kernels::hopper::begin_products();
  emulator::multiply_async({.sums = sums,
                            .columns = 2 * count,
                            .left = task.from_registers ? left : nullptr,
                            .a = task.a,
                            .b = task.b,
                            .a_major = task.a_major,
                            .b_major = task.b_major,
                            .adds = task.adds,
                            .element = task.element},
                           {.file = __FILE__, .line = __LINE__});
  kernels::hopper::commit_products();
  kernels::hopper::wait_for_products<0>();
  for (int i = 0; i < count; ++i) {
    const int row = thread / 32 * 16 + group + i / 2 % 2 * 8;
    const int column = i / 4 * 8 + pair * 2 + i % 2;
    stg(&c[row * 2 * count + column], sums[i]);
  }
}

// Small whole numbers, different for each element.
float a_of(std::uint32_t row, std::uint32_t k) {
  return static_cast<float>((row * 3 + k * 5) % 13);
}
float b_of(std::uint32_t column, std::uint32_t k) {
  return static_cast<float>((column * 7 + k * 2) % 11) - 5.0F;
}

template <typename T, typename Value>
void put(std::vector<T>& image, std::uint32_t start, const Tile& tile, const Value& value) {
  for (std::uint32_t row = 0; row < tile.along; ++row) {
    for (std::uint32_t k = 0; k < tile.depth; ++k) {
      image.at((start + tile.place_of(row, k)) / 2) = T(value(row, k));
    }
  }
}

template <int count, typename T = bf16>
void expect_product(const Tile& left, const Tile& right, std::uint32_t first_depth, bool adds,
                    bool from_registers) {
  std::vector<T> image((kLeftBytes + 65536) / 2, T(99.0F));
  put(image, 0, left, a_of);
  put(image, kLeftBytes, right, b_of);
  std::vector<unsigned> a_rows;
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (std::uint32_t k = 0; k < kDepth; k += 2) {
      a_rows.push_back(pack_pair<T>(a_of(row, first_depth + k), a_of(row, first_depth + k + 1)));
    }
  }
  // Further along the depth: 2 bytes an element in a row of a unit, units of rows by depth.
  const auto begin = [first_depth](const Tile& tile, std::uint32_t start) {
    return encode(tile.describe(start + tile.place_of(0, first_depth)));
  };
  const Task task{.a = begin(left, 0),
                  .b = begin(right, kLeftBytes),
                  .a_major = left.major,
                  .b_major = right.major,
                  .from_registers = from_registers,
                  .adds = adds,
                  .element = kernels::hopper::kElement<T>};
  const Buffer<uint4> in(
      "in", std::vector<uint4>(reinterpret_cast<const uint4*>(image.data()),
                               reinterpret_cast<const uint4*>(image.data() + image.size())));
  const Buffer<unsigned> rows("a_rows", a_rows);
  Buffer<float> c("c", std::size_t{kRows} * 2 * count);
  launch(product_kernel<count>, one_block(128, image.size() * 2), in.data(),
         static_cast<int>(in.size()), rows.data(), c.data(), task);
  const std::vector<float> found = c.download();
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (std::uint32_t column = 0; column < 2 * count; ++column) {
      float expected = adds ? 1.0F : 0.0F;
      for (std::uint32_t k = first_depth; k < first_depth + kDepth; ++k) {
        expected += a_of(row, k) * b_of(column, k);
      }
      ASSERT_EQ(found.at(row * 2 * count + column), expected) << row << ", " << column;
    }
  }
}

class Products : public ::testing::TestWithParam<std::tuple<Swizzle, Major, Major>> {};

TEST_P(Products, ReadTheirFactorsWhereDescriptorsLead) {
  const auto [swizzle, a_major, b_major] = GetParam();
  const Tile left{.swizzle = swizzle, .major = a_major, .along = kRows, .depth = 64};
  const Tile right{.swizzle = swizzle, .major = b_major, .along = 128, .depth = 64};
  expect_product<64>(left, right, 0, true, false);
  expect_product<64>(left, right, 0, false, true);
}

INSTANTIATE_TEST_SUITE_P(All, Products,
                         ::testing::Combine(::testing::Values(Swizzle::kNone, Swizzle::k32,
                                                              Swizzle::k64, Swizzle::k128),
                                            ::testing::Values(Major::kRows, Major::kDepth),
                                            ::testing::Values(Major::kRows, Major::kDepth)));

TEST(Products, OfEachWidth) {
  const auto of_columns = [](std::uint32_t columns) {
    return Tile{.swizzle = Swizzle::k128, .major = Major::kRows, .along = columns, .depth = 64};
  };
  expect_product<4>(of_columns(kRows), of_columns(8), 0, true, false);
  expect_product<12>(of_columns(kRows), of_columns(24), 0, true, false);
  expect_product<32>(of_columns(kRows), of_columns(64), 0, true, false);
  expect_product<128>(of_columns(kRows), of_columns(256), 0, true, true);
}

TEST(Products, OfHalves) {
  for (const Major major : {Major::kRows, Major::kDepth}) {
    const Tile left{.swizzle = Swizzle::k128, .major = major, .along = kRows, .depth = 64};
    const Tile right{.swizzle = Swizzle::k128, .major = major, .along = 128, .depth = 64};
    expect_product<64, half>(left, right, 0, true, false);
    expect_product<64, half>(left, right, 0, false, true);
  }
}

// As the rungs go along a row of a box, and through a box by depth.
TEST(Products, BeginAtEachStepOfTheDepth) {
  const Tile rows{.swizzle = Swizzle::k128, .major = Major::kRows, .along = kRows, .depth = 64};
  const Tile by_depth{.swizzle = Swizzle::k128, .major = Major::kDepth, .along = 128, .depth = 64};
  for (const std::uint32_t first : {0U, 16U, 32U, 48U}) {
    expect_product<32>(rows, rows, first, true, false);
    expect_product<64>(rows, by_depth, first, true, true);
  }
}

}  // namespace products_test
}  // namespace ultra::simt::test
