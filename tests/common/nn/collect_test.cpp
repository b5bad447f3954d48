#include "common/nn/collect.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/nn/layer_fixture.hpp"

namespace ultra::nn {
namespace {

class CollectTest : public LayerTest {};

TEST_F(CollectTest, KeepsTheOrderAndSkipsNullModules) {
  const auto first = factory.norm(context(), "first");
  const auto second = factory.norm(context(), "second");
  Module none;
  const std::vector<Parameter*> all =
      collect_parameters({second.get(), nullptr, &none, first.get()});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0]->name(), "second");
  EXPECT_EQ(all[1]->name(), "first");
  EXPECT_TRUE(collect_parameters({}).empty());
}

}  // namespace
}  // namespace ultra::nn
