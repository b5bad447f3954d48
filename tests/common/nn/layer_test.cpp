#include "common/nn/layer.hpp"

#include <gtest/gtest.h>

namespace ultra::nn {
namespace {

TEST(Module, OwnsNoParametersUnlessItSaysSo) {
  Module module;
  EXPECT_TRUE(module.parameters().empty());
}

}  // namespace
}  // namespace ultra::nn
