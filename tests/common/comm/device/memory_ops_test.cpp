#include "common/comm/device/memory_ops.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/errors.hpp"

namespace ultra::comm {
namespace {

double sum_of_ones(const Device& device, std::size_t terms) {
  const std::vector<Tensor> from(terms, Tensor::from<float>(device, {1}, std::vector{1.0F}));
  const Tensor into = Tensor::zeros(device, {1}, DType::kF32);
  combine_tensors(ReduceOp::kSum, into, from);
  return into.to_vector().front();
}

TEST(MemoryOps, ADeviceCombinesAsManyAsItSaysAndNoMore) {
  const Device device = Device::create(DeviceKind::kEmulated);
  const std::size_t most = DeviceMemory::of(device, "test")->most_combined();
  EXPECT_GE(most, 8U) << "the ranks of a node";
  EXPECT_EQ(sum_of_ones(device, most), static_cast<double>(most));
  EXPECT_THROW(static_cast<void>(sum_of_ones(device, most + 1)), ConfigError);
}

TEST(MemoryOps, TheHostCombinesAnyNumber) {
  EXPECT_GT(host_memory().most_combined(), 1U << 20);
  EXPECT_EQ(sum_of_ones(Device::cpu(), 1000), 1000.0);
}

}  // namespace
}  // namespace ultra::comm
