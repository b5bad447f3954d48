#include "common/comm/engine/tensor_bytes.hpp"

#include <gtest/gtest.h>

namespace ultra::comm {
namespace {

TEST(BytesOf, AreAllBytesOfATensor) {
  const Tensor tensor = Tensor::zeros(Device::cpu(), {3, 2}, DType::kF64);
  EXPECT_EQ(bytes_of(tensor).size(), 48U);
  EXPECT_EQ(bytes_of(tensor.slice(0, {1, 2})).size(), 16U);
  EXPECT_EQ(bytes_of(tensor.slice(0, {1, 2})).data(), bytes_of(tensor).data() + 16);
  EXPECT_EQ(bytes_of(Tensor::zeros(Device::cpu(), {5}, DType::kI32)).size(), 20U);
  EXPECT_TRUE(bytes_of(Tensor{}).empty());
}

TEST(Overlap, NeedsAnElementInCommon) {
  const Tensor tensor = Tensor::zeros(Device::cpu(), {10}, DType::kF32);
  const auto piece = [&](std::size_t begin, std::size_t end) {
    return tensor.slice(0, {begin, end});
  };
  EXPECT_TRUE(overlap(tensor, tensor));
  EXPECT_TRUE(overlap(tensor, piece(9, 10)));
  EXPECT_TRUE(overlap(piece(0, 5), piece(4, 6)));
  EXPECT_FALSE(overlap(piece(0, 5), piece(5, 10)));
  EXPECT_FALSE(overlap(piece(5, 10), piece(0, 5)));
  EXPECT_FALSE(overlap(piece(5, 5), tensor));
  EXPECT_FALSE(overlap(tensor, Tensor{}));
  EXPECT_FALSE(overlap(tensor, tensor.clone()));
}

}  // namespace
}  // namespace ultra::comm
