// Covers: common/tensor/regions.hpp

#include "common/tensor/shape.hpp"

#include <set>

#include "common/tensor/regions.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

TEST(Shape, AScalarHasNoDimensionsAndOneElement) {
  const Shape scalar;
  EXPECT_EQ(scalar.rank(), 0U);
  EXPECT_EQ(scalar.numel(), 1U);
  EXPECT_EQ(scalar.str(), "[]");
}

TEST(Shape, KnowsItsExtentsFromBothEnds) {
  const Shape shape{4, 256, 384};
  EXPECT_EQ(shape.rank(), 3U);
  EXPECT_EQ(shape[0], 4U);
  EXPECT_EQ(shape[2], 384U);
  EXPECT_EQ(shape[-1], 384U);
  EXPECT_EQ(shape[-3], 4U);
  EXPECT_EQ(shape.numel(), 4U * 256U * 384U);
  EXPECT_EQ(shape.str(), "[4, 256, 384]");
  EXPECT_THAT(shape.dims(), ElementsAre(4U, 256U, 384U));
}

TEST(Shape, AZeroExtentMeansNoElements) { EXPECT_EQ((Shape{3, 0, 5}.numel()), 0U); }

TEST(Shape, WithReplacesOneExtentOfACopy) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.with(1, 7), (Shape{2, 7, 4}));
  EXPECT_EQ(shape.with(-1, 0), (Shape{2, 3, 0}));
  EXPECT_EQ(shape, (Shape{2, 3, 4}));
}

TEST(Shape, EqualityComparesRankAndExtents) {
  EXPECT_EQ((Shape{2, 3}), Shape(std::vector<std::size_t>{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_NE((Shape{2, 0}), (Shape{2}));
}

TEST(Shape, RefusesADimensionThatIsNotThere) {
  const Shape shape{2, 3};
  for (const int dim : {2, -3, 100}) {
    const std::string message = message_of<ShapeError>([&] { return shape[dim]; });
    EXPECT_THAT(message, HasSubstr("[2, 3]"));
    EXPECT_THAT(message, HasSubstr("no dimension " + std::to_string(dim)));
  }
  EXPECT_THROW(static_cast<void>(shape.with(2, 1)), ShapeError);
  EXPECT_THROW(static_cast<void>(Shape()[0]), ShapeError);
}

TEST(Shape, RefusesMoreThanSixDimensions) {
  EXPECT_NO_THROW(static_cast<void>(Shape{1, 2, 3, 4, 5, 6}));
  const std::string message = message_of<ShapeError>([] { return Shape{1, 2, 3, 4, 5, 6, 7}; });
  EXPECT_THAT(message, HasSubstr("at most 6"));
  EXPECT_THAT(message, HasSubstr("found 7"));
}

TEST(Range, CountsItsIndices) {
  EXPECT_EQ((Range{3, 8}.size()), 5U);
  EXPECT_EQ((Range{3, 3}.size()), 0U);
  EXPECT_EQ((Range{1, 2}), (Range{1, 2}));
  EXPECT_FALSE((Range{1, 2} == Range{1, 3}));
}

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
