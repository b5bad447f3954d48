#include "common/tensor/shape.hpp"
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

}  // namespace
}  // namespace ultra
