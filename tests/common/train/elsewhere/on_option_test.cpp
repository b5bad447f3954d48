// Machines as --on names them.
//
// Covers: common/train/elsewhere/on_option.hpp

#include "common/train/elsewhere/on_option.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/errors.hpp"

namespace ultra::train {
namespace {

using ::testing::HasSubstr;

TEST(OnOption, ReadsAClusterItsNodesAndKeys) {
  const Machine plain = parse_machine("dgx-h100");
  EXPECT_EQ(plain.cluster.name, "dgx-h100");
  EXPECT_FALSE(plain.nodes.has_value());
  const Machine changed = parse_machine("dgx-h100:16,nics_per_node=1,inter.bandwidth=1e9");
  EXPECT_EQ(changed.nodes, 16U);
  EXPECT_EQ(changed.cluster.nics_per_node, 1);
  EXPECT_EQ(changed.cluster.inter.bandwidth, 1e9);
  EXPECT_EQ(changed.cluster.intra.bandwidth, plain.cluster.intra.bandwidth);
}

TEST(OnOption, SaysWhatItCannotRead) {
  const auto expect_refused = [](const char* text, const char* because) {
    try {
      static_cast<void>(parse_machine(text));
      ADD_FAILURE() << text;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("--on")) << text;
      EXPECT_THAT(error.what(), HasSubstr(because)) << text;
    }
  };
  expect_refused("dgx-x9", "no cluster is called 'dgx-x9'");
  expect_refused("dgx-h100:0", "a number of nodes of at least 1");
  expect_refused("dgx-h100:many", "a number of nodes of at least 1");
  expect_refused("dgx-h100:2,nics=1", "Its keys are gpus_per_node, ");
  expect_refused("dgx-h100:2,nics_per_node", "is no key=value");
  expect_refused("dgx-h100:2,nics_per_node=0.5", "needs a whole number");
  expect_refused("dgx-h100:2,straggler=fast", "needs a number");
  expect_refused("dgx-h100:2,nics_per_node=9", "from 1 to gpus_per_node");
}

}  // namespace
}  // namespace ultra::train
