#include "common/comm/device/memory_ops.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"

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

TEST(CombineTensors, AddsInOrderOnEveryDeviceThatTheHostPlays) {
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kEmulated}) {
    const Device device = Device::create(kind);
    std::vector<Tensor> terms;
    for (const double first : {1.0, 10.0, 100.0}) {
      terms.push_back(Tensor::from<double>(device, {2}, std::vector{first, 2 * first}));
    }
    combine_tensors(ReduceOp::kSum, terms.front(), terms);
    EXPECT_EQ(terms.front().to_vector(), (std::vector{111.0, 222.0})) << to_string(kind);
    combine_tensors(ReduceOp::kMax, terms[1], std::vector{terms[1], terms[2]});
    EXPECT_EQ(terms[1].to_vector(), (std::vector{100.0, 200.0})) << to_string(kind);
  }
}

class CombinedOnADevice : public test::RandomTest {};

TEST_F(CombinedOnADevice, HasTheHostsBitsWhereverItBegins) {
  const Device emulated = Device::create(DeviceKind::kEmulated);
  const Device cpu = Device::cpu();
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kBF16, DType::kF16}) {
    for (const std::size_t ranks : {random.between(1, 8), random.between(9, 12)}) {
      // A few elements, and more than all threads take in one turn.
      for (const std::size_t count : {random.between(1, 40), random.between(140000, 150000)}) {
        const std::size_t first = random.pick({std::size_t{0}, std::size_t{1}, std::size_t{8}});
        std::vector<Tensor> here;
        std::vector<Tensor> there;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          const Tensor whole = dtype == DType::kI32 ? random.tokens(cpu, {first + count}, 1000)
                                                    : random.tensor(cpu, {first + count}, dtype);
          here.push_back(whole.slice(0, {first, first + count}));
          there.push_back(whole.to(emulated).slice(0, {first, first + count}));
        }
        const ReduceOp op =
            random.pick({ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAverage});
        const std::size_t into = random.between(0, ranks - 1);
        combine_tensors(op, here[into], here);
        combine_tensors(op, there[into], there);
        EXPECT_TRUE(test::all_equal(there[into].to(cpu), here[into]))
            << ranks << " ranks, " << count << " of " << to_string(dtype) << " from " << first;
      }
    }
  }
}

}  // namespace
}  // namespace ultra::comm
