// How biases move.
//
// Covers: chapters/08_expert_parallel/balancing/expert_observer.hpp
// Covers: chapters/08_expert_parallel/moe/bias_name.hpp

#include "chapters/08_expert_parallel/balancing/expert_observer.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/compare.hpp"

namespace ultra::expert_parallel {
namespace {

TEST(MoveBiases, DownForTheBusyAndUpForTheIdle) {
  const std::vector<double> before = {0.5, 0.0, -0.25, 1.0};
  const Tensor biases = Tensor::from<double>(Device::cpu(), {4}, before);
  move_biases(biases, std::vector<double>{8, 4, 4, 0}, 0.125);
  EXPECT_TRUE(ultra::test::all_equal(biases, std::vector<double>{0.375, 0.0, -0.25, 1.125}));
}

}  // namespace
}  // namespace ultra::expert_parallel
