// Covers: common/tensor/regions.hpp
// Covers: common/tensor/shape.hpp

#include "common/tensor/tensor.hpp"

#include <set>

#include "common/tensor/regions.hpp"
#include "common/tensor/shape.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

class TensorTest : public test::RandomTest {
 protected:
  /// 0, 1, 2, ... in that shape: an element's value is its row-major index.
  [[nodiscard]] Tensor counted(const Shape& shape) const {
    std::vector<double> values(shape.numel());
    std::iota(values.begin(), values.end(), 0.0);
    return Tensor::from<double>(device, shape, values);
  }
};

TEST_F(TensorTest, ZerosAreZeroEvenOnUsedMemory) {
  for (int i = 0; i < 3; ++i) {
    const Tensor t = Tensor::zeros(device, {5, 7}, DType::kF32);
    EXPECT_THAT(t.span<float>(), Each(0.0F));
    t.fill(3.0);
  }
}

TEST_F(TensorTest, AViewOfNonContiguousDataIsAnErrorAndReshapeCopies) {
  const Tensor t = counted({2, 3}).transpose(0, 1);
  const std::string message = message_of<ShapeError>([&] { return t.view({6}); });
  EXPECT_THAT(message, HasSubstr("view needs a contiguous tensor"));
  EXPECT_THAT(message, HasSubstr("shape [3, 2] with strides [1, 3]"));
  EXPECT_THAT(message, HasSubstr("reshape()"));
  EXPECT_THAT(message_of<ShapeError>([&] { return t.span<double>(); }),
              HasSubstr("span needs a contiguous tensor"));
  const Tensor reshaped = t.reshape({6});
  EXPECT_THAT(reshaped.to_vector(), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_FALSE(reshaped.shares_storage(t));
}

TEST_F(TensorTest, AViewMustKeepTheNumberOfElements) {
  EXPECT_THAT(message_of<ShapeError>([&] {
                return counted({2, 3}).view({4});
              }),
              HasSubstr("view [4] of a tensor [2, 3]: 4 elements against 6"));
  EXPECT_THROW(static_cast<void>(counted({2, 3}).reshape({7})), ShapeError);
}

TEST_F(TensorTest, ASliceThatLeavesItsDimensionIsAnError) {
  const Tensor t = counted({3, 4});
  EXPECT_THAT(message_of<ShapeError>([&] {
                return t.slice(1, {2, 5});
              }),
              HasSubstr("slice [2, 5) leaves dimension 1 of [3, 4]"));
  EXPECT_THROW(static_cast<void>(t.slice(0, {2, 1})), ShapeError);
  EXPECT_THROW(static_cast<void>(t.slice(2, {0, 1})), ShapeError);
}

TEST_F(TensorTest, AnyChainOfViewsAddressesTheRightElements) {
  for (int round = 0; round < 30; ++round) {
    const Shape shape{random.between(1, 5), random.between(1, 5), random.between(1, 5)};
    const Tensor t = counted(shape);
    const int a = static_cast<int>(random.between(0, 2));
    const int b = static_cast<int>(random.between(0, 2));
    const Tensor swapped = t.transpose(a, b);
    const std::size_t begin = random.between(0, swapped.size(1) - 1);
    const Tensor window = swapped.slice(1, {begin, swapped.size(1)});
    std::vector<double> expected;
    for (std::size_t i = 0; i < window.size(0); ++i) {
      for (std::size_t j = 0; j < window.size(1); ++j) {
        for (std::size_t k = 0; k < window.size(2); ++k) {
          std::size_t index[3] = {i, j + begin, k};
          std::swap(index[a], index[b]);
          expected.push_back(
              static_cast<double>((index[0] * shape[1] + index[1]) * shape[2] + index[2]));
        }
      }
    }
    EXPECT_EQ(window.to_vector(), expected) << shape.str() << " " << a << " " << b;
    EXPECT_EQ(window.clone().to_vector(), expected);
    EXPECT_EQ(window.contiguous().to_vector(), expected);
    EXPECT_TRUE(window.contiguous().is_contiguous());
  }
}

TEST_F(TensorTest, ContiguousCopiesOnlyWhenItMust) {
  const Tensor t = counted({2, 3});
  EXPECT_TRUE(t.contiguous().shares_storage(t));
  EXPECT_FALSE(t.transpose(0, 1).contiguous().shares_storage(t));
  EXPECT_TRUE(
      t.slice(0, {1, 2}).transpose(0, 1).is_contiguous());  // one row: the order is the same
}

TEST_F(TensorTest, ConversionRoundsAndKeepsTheShape) {
  const Tensor t = random.tensor(device, {3, 5}, DType::kF64);
  const Tensor f32 = t.transpose(0, 1).to(DType::kF32);
  EXPECT_EQ(f32.shape(), (Shape{5, 3}));
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      EXPECT_EQ(f32.span<float>()[i * 3 + j], static_cast<float>(t.span<double>()[j * 5 + i]));
    }
  }
  const Tensor tokens = random.tokens(device, {4}, 10);
  EXPECT_TRUE(test::all_equal(tokens.to(DType::kI32), tokens));
  EXPECT_THAT(message_of<ShapeError>([&] { return tokens.to(DType::kF32); }),
              HasSubstr("cannot convert i32 to f32"));
  EXPECT_THROW(static_cast<void>(t.to(DType::kI32)), ShapeError);
}

TEST_F(TensorTest, CopyFromWritesThroughAnyStrides) {
  const Tensor target = Tensor::zeros(device, {3, 4}, DType::kF64);
  target.slice(1, {1, 3}).copy_from(counted({2, 3}).transpose(0, 1));
  EXPECT_THAT(target.to_vector(), ElementsAre(0, 0, 3, 0, 0, 1, 4, 0, 0, 2, 5, 0));
  const std::string message = message_of<ShapeError>([&] { target.copy_from(counted({4, 3})); });
  EXPECT_THAT(message, HasSubstr("expected [3, 4] of f64, found [4, 3] of f64"));
  EXPECT_THROW(target.copy_from(target.to(DType::kF32)), ShapeError);
  EXPECT_THROW(target.copy_from(Tensor()), ShapeError);
}

TEST_F(TensorTest, ScalarsAndEmptyTensorsWork) {
  const Tensor scalar = test::filled(device, {}, DType::kF64, 2.5);
  EXPECT_THAT(scalar.clone().to_vector(), ElementsAre(2.5));
  for (const Shape& shape : {Shape{0}, Shape{3, 0}, Shape{0, 4}, Shape{2, 0, 3}}) {
    const Tensor none = Tensor::zeros(device, shape, DType::kF32);
    none.fill(1.0);
    EXPECT_TRUE(none.is_contiguous());
    EXPECT_TRUE(none.to_vector().empty());
    EXPECT_EQ(none.clone().shape(), shape);
    EXPECT_EQ(none.transpose(0, -1).contiguous().numel(), 0U);
    EXPECT_EQ(none.view({0, 9}).numel(), 0U);
    none.copy_from(none.clone());
  }
}

TEST_F(TensorTest, TheTrackerFollowsTheStorageThroughItsLife) {
  using enum MemoryCategory;
  {
    const Tensor t = Tensor::zeros(device, {10}, DType::kF64, kParameters);
    EXPECT_EQ(device.memory().current()[kParameters], 80U);
    {
      const Tensor view = t.slice(0, {0, 1});
      EXPECT_EQ(view.storage_bytes(), 80U);
      EXPECT_EQ(view.nbytes(), 8U);
      view.set_category(kActivations);  // the whole storage, whichever view asks
    }
    EXPECT_EQ(t.category(), kActivations);
    EXPECT_EQ(device.memory().current()[kParameters], 0U);
    EXPECT_EQ(device.memory().current()[kActivations], 80U);
    const Tensor clone = t.clone(kOptimizer);
    EXPECT_EQ(device.memory().current()[kOptimizer], 80U);
  }
  EXPECT_EQ(device.memory().current().total(), 0U);
}

TEST_F(TensorTest, ExpectTensorNamesWhatIsWrong) {
  const Tensor t = counted({2, 3});
  EXPECT_NO_THROW(expect_tensor("grad", t, {2, 3}, DType::kF64));
  EXPECT_THAT(message_of<ShapeError>([&] { expect_tensor("grad", t, {3}, DType::kF32); }),
              HasSubstr("grad: expected [3] of f32, found [2, 3] of f64"));
  EXPECT_THAT(message_of<ShapeError>([&] { expect_tensor("grad", Tensor(), {3}, DType::kF32); }),
              HasSubstr("grad: expected [3] of f32, found an undefined tensor"));
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

using RandomRegions = test::RandomTest;

TEST(RegionOf, AStridedViewIsItsRows) {
  const Tensor t = offsets({6, 8});
  for (const Tensor& view : {t.slice(1, {2, 5}), t.slice(1, {2, 5}).transpose(0, 1),
                             t.slice(0, {1, 4}).slice(1, {7, 8}), t.slice(1, {3, 4})}) {
    EXPECT_EQ(bytes_of(region_of(view), t), expected_bytes(view)) << view.shape().str();
  }
}

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
