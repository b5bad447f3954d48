#include "common/tensor/regions.hpp"

#include <set>

#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

std::set<std::size_t> bytes_of(const gpu::Region& region, const Tensor& base) {
  const auto* const first = static_cast<const std::byte*>(base.address());
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(region.begin) - first);
  std::set<std::size_t> bytes;
  for (std::size_t run = 0; run < region.runs; ++run) {
    for (std::size_t i = 0; i < region.bytes; ++i) bytes.insert(offset + run * region.stride + i);
  }
  return bytes;
}

/// The bytes of a view of an f32 tensor whose elements are their own offsets.
std::set<std::size_t> expected_bytes(const Tensor& view) {
  std::set<std::size_t> bytes;
  for (const double element : view.to_vector()) {
    for (std::size_t i = 0; i < 4; ++i) bytes.insert(4 * static_cast<std::size_t>(element) + i);
  }
  return bytes;
}

Tensor offsets(const Shape& shape) {
  std::vector<float> values(shape.numel());
  std::iota(values.begin(), values.end(), 0.0F);
  return Tensor::from<float>(Device::cpu(), shape, values);
}

TEST(RegionOf, WhatStandsTogetherIsOneRun) {
  const Tensor t = offsets({3, 4, 5});
  EXPECT_EQ(region_of(t).runs, 1U);
  EXPECT_EQ(region_of(t).bytes, 240U);
  EXPECT_EQ(region_of(t.slice(0, {1, 2})).begin, t.slice(0, {1, 2}).address());
  EXPECT_EQ(region_of(t.transpose(0, 2)).runs, 1U);
  EXPECT_EQ(region_of(Tensor()).bytes, 0U);
  EXPECT_EQ(region_of(t.slice(1, {2, 2})).bytes, 0U);
}

TEST(RegionOf, AStridedViewIsItsRows) {
  const Tensor t = offsets({6, 8});
  for (const Tensor& view : {t.slice(1, {2, 5}), t.slice(1, {2, 5}).transpose(0, 1),
                             t.slice(0, {1, 4}).slice(1, {7, 8}), t.slice(1, {3, 4})}) {
    EXPECT_EQ(bytes_of(region_of(view), t), expected_bytes(view)) << view.shape().str();
  }
}

TEST(RegionOf, MiddleDimensionsCutAreItsBlocks) {
  const Tensor t = offsets({3, 4, 5});
  const Tensor view = t.slice(1, {1, 3});
  EXPECT_EQ(bytes_of(region_of(view), t), expected_bytes(view));
}

using RandomRegions = test::RandomTest;

TEST_F(RandomRegions, HoldAllBytesOfTheView) {
  for (int round = 0; round < 100; ++round) {
    const Tensor t = offsets({random.between(1, 4), random.between(1, 4), random.between(1, 4)});
    Tensor view = t;
    for (int dim = 0; dim < 3; ++dim) {
      const std::size_t begin = random.between(0, view.size(dim) - 1);
      view = view.slice(dim, {begin, random.between(begin + 1, view.size(dim))});
    }
    const std::set<std::size_t> found = bytes_of(region_of(view), t);
    EXPECT_TRUE(std::ranges::includes(found, expected_bytes(view)));
  }
}

}  // namespace
}  // namespace ultra
