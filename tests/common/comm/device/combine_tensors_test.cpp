#include "common/comm/device/memory_ops.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ultra::comm {
namespace {

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

}  // namespace
}  // namespace ultra::comm
