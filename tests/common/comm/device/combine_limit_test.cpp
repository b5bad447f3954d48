#include "common/comm/device/combine_limit.hpp"

#include "common/comm/device/combine_tensors.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::comm {
namespace {

TEST(CombineLimit, IsWhatADeviceTakesAtOnce) {
  const Device device = Device::create(DeviceKind::kEmulated);
  const auto sum_of = [&](std::size_t terms) {
    const std::vector<Tensor> from(terms,
                                   Tensor::from<float>(device, {3}, std::vector{1.0F, 2.0F, 3.0F}));
    const Tensor into = Tensor::zeros(device, {3}, DType::kF32);
    combine_tensors(ReduceOp::kSum, into, from);
    return into.to_vector();
  };
  const std::size_t most = most_combined_at_once();
  EXPECT_GE(most, 8U) << "the ranks of a node";
  EXPECT_EQ(sum_of(most).front(), count_of(most));
  EXPECT_THROW(static_cast<void>(sum_of(most + 1)), ConfigError);
}

}  // namespace
}  // namespace ultra::comm
