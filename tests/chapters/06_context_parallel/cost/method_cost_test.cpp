#include "chapters/06_context_parallel/cost/method_cost.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"

namespace ultra::context_parallel {
namespace {

/// Attention of Llama 3 8B on H100 nodes.
MethodQuestion question(int cp, std::size_t seq_len) {
  return {.seq_len = seq_len,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .flops = 4e14,
          .cp = cp,
          .node = collectives::parse_topology("h100")};
}

const MethodCost& cost_of(const std::vector<MethodCost>& costs, ContextMethod method, int ulysses) {
  for (const MethodCost& cost : costs) {
    if (cost.choice.method == method && cost.choice.ulysses == ulysses) return cost;
  }
  throw std::runtime_error("no such method");
}

TEST(MethodCost, ListsEveryMethodThatTheHeadsAllow) {
  const std::vector<MethodCost> costs = method_costs(question(16, 65536));
  ASSERT_EQ(costs.size(), 5U) << "ring, all-gather, and 8, 4 and 2 neighbours: not 16, for 8 heads";
  EXPECT_EQ(method_costs(question(8, 65536)).size(), 5U);
  MethodQuestion one_head = question(8, 65536);
  one_head.kv_heads = 1;
  EXPECT_EQ(method_costs(one_head).size(), 2U);
}

TEST(MethodCost, AllComputeTheSame) {
  const std::vector<MethodCost> costs = method_costs(question(8, 65536));
  // 2 h s^2 FLOP forward and 2.5 times that backward, of 8 ranks.
  const double expected = 3.5 * 2 * 4096.0 * 65536.0 * 65536.0 / 8 / 4e14;
  for (const MethodCost& cost : costs) EXPECT_NEAR(cost.compute, expected, 1e-9 * expected);
}

TEST(MethodCost, OneRankWaitsForNobody) {
  for (const MethodCost& cost : method_costs(question(1, 4096))) EXPECT_EQ(cost.exposed, 0);
}

TEST(MethodCost, LongSequencesHideARing) {
  const std::vector<MethodCost> costs = method_costs(question(8, 1 << 20));
  EXPECT_EQ(fastest(costs).choice.method, ContextMethod::kRing);
  const MethodCost& ring = cost_of(costs, ContextMethod::kRing, 1);
  EXPECT_LT(ring.exposed, 0.01 * ring.compute);
}

TEST(MethodCost, ShortOnesAcrossNodesWantHeadsInsideAndARingAcross) {
  const MethodCost best = fastest(method_costs(question(16, 8192)));
  EXPECT_EQ(best.choice.method, ContextMethod::kUlyssesRing);
  EXPECT_EQ(best.choice.ulysses, 8) << "a node";
}

TEST(MethodCost, WhatCannotBeIsRefusedInWords) {
  const auto message = [](const MethodQuestion& asked) {
    return ultra::test::message_of<ConfigError>([&] { static_cast<void>(method_costs(asked)); });
  };
  EXPECT_NE(message(question(12, 4096)).find("12 ranks fill no whole nodes of 8: 12 % 8 = 4"),
            std::string::npos);
  EXPECT_NE(message(question(8, 7)).find("7 tokens leaves some of 8 ranks without any"),
            std::string::npos);
}

}  // namespace
}  // namespace ultra::context_parallel
