// What blocks wait for: keys and values, tokens with experts, the host.
//
// Covers: chapters/11_five_d/planner/time/exposed_exchanges.hpp
#include "chapters/11_five_d/planner/time/exposed_exchanges.hpp"

#include <gtest/gtest.h>

#include "chapters/11_five_d/planner/memory/stage_parameters.hpp"

namespace ultra::planner {
namespace {

using context_parallel::ContextMethod;

/// Llama 8B: 32 heads and 8 key/value heads of 128. No latency, and half of each NIC.
Question exposed_question(const char* model = "llama-8b") {
  Question q{.work = {.model = *find_model(model), .seq_len = 32768, .global_batch = 64},
             .cluster = *replay::find_cluster("dgx-h100"),
             .software = find_software("modern")};
  q.cluster.intra = {.latency = 0, .bandwidth = 100e9};
  q.cluster.inter = {.latency = 0, .bandwidth = 50e9};
  q.cluster.gpu.efficiency.network = 0.5;
  return q;
}

constexpr double kTokens = 32768;

/// Seconds of what a rank of eight sends, forward and backward: 06_context_parallel.md, "What travels".
WaitSeconds seconds_sent(ContextMethod method) {
  constexpr double kTokensOfRank = kTokens / 8, kHeads = 32, kKvHeads = 8, kHeadDim = 128;
  const double element = 2 / 100e9;  // seconds, in bf16
  if (method == ContextMethod::kAllGather) {
    const double gathered = 7 * 2 * kTokensOfRank * kKvHeads * kHeadDim * element;
    return {.forward = gathered, .backward = 2 * gathered};  // and gradients
  }
  const double exchanged = 7.0 / 8 * 2 * kTokensOfRank * (kHeads + kKvHeads) * kHeadDim * element;
  return {.forward = exchanged, .backward = exchanged};
}

TEST(ExposedExchanges, KeysAndValuesAreGatheredBothWaysAndTheirGradientsSummedUp) {
  const WaitSeconds wait =
      context_waits(exposed_question(), {.cp = 8}, {.forward = 9, .backward = 9});
  const WaitSeconds sent = seconds_sent(ContextMethod::kAllGather);
  EXPECT_NEAR(wait.forward / sent.forward, 1, 1e-9);
  EXPECT_NEAR(wait.backward / sent.backward, 1, 1e-9);
  EXPECT_EQ(context_waits(exposed_question(), {}, {}).forward, 0);
}

TEST(ExposedExchanges, ARingIsHiddenBehindAttentionThatIsLongEnough) {
  Layout layout{.cp = 8};
  layout.context_method = ContextMethod::kRing;
  const double hop = 2 * kTokens / 8 * 2048 / 100e9;
  const WaitSeconds hidden =
      context_waits(exposed_question(), layout, {.forward = 8 * hop, .backward = 8 * 2 * hop});
  EXPECT_NEAR(hidden.forward, 0, 1e-12);
  EXPECT_NEAR(hidden.backward / hop, 1, 1e-9);  // the gradients' last hop
  const WaitSeconds bare = context_waits(exposed_question(), layout, {});
  EXPECT_NEAR(bare.forward / hop, 7, 1e-9);
  EXPECT_NEAR(bare.backward / hop, 2 * 8 - 1, 1e-9);  // keys 7 times, gradients 8 times
}

TEST(ExposedExchanges, UlyssesExchangesQueriesAndOutputsToo) {
  Layout layout{.cp = 8};
  layout.context_method = ContextMethod::kUlysses;
  const WaitSeconds wait = context_waits(exposed_question(), layout, {.forward = 9, .backward = 9});
  const WaitSeconds sent = seconds_sent(ContextMethod::kUlysses);
  EXPECT_NEAR(wait.forward / sent.forward, 1, 1e-9);
  EXPECT_NEAR(wait.backward / sent.backward, 1, 1e-9);
  EXPECT_FALSE(why_impossible(exposed_question().work, layout));
  layout.tp = 2;  // four key/value heads are left, and eight ranks want them
  EXPECT_TRUE(why_impossible(exposed_question().work, layout));
}

TEST(ExposedExchanges, TokensOfEightExpertsTravelOnceToEachOfFourNodes) {
  Question q = exposed_question("deepseek-v3");
  q.work.seq_len = 4096;
  q.software = find_software("deepseek");
  q.software.overlaps_experts = false;
  const Layout layout{.dp = 64, .ep = 64};
  // 1 byte there and 2 back of 7,168 elements; of eight nodes seven are elsewhere; 3.6 of four
  // nodes have some of a token's eight experts: 4 (1 - C(96, 8) / C(128, 8)).
  double none = 1;
  for (int i = 0; i < 8; ++i) none *= (96.0 - i) / (128.0 - i);
  const double copies = 4 * (1 - none);
  const double seconds = 4096 * 3 * 7168 * copies * 7 / 8 / 25e9;
  EXPECT_NEAR(expert_waits(q, layout, {}).forward / seconds, 1, 1e-6);
  q.software.sends_once_per_node = false;
  EXPECT_NEAR(expert_waits(q, layout, {}).forward / (seconds / copies * 8), 1, 1e-6);
}

TEST(ExposedExchanges, AnotherMicroBatchHidesTokensAsLongAsItTakes) {
  Question q = exposed_question("deepseek-v3");
  const Layout layout{.dp = 8, .ep = 8};
  q.software.overlaps_experts = false;
  const double bare = expert_waits(q, layout, {.forward = 1, .backward = 2}).forward;
  ASSERT_GT(bare, 0);
  q.software.overlaps_experts = true;
  const auto exposed = [&](double mean) {
    return expert_waits(q, layout, {.forward = 0.5 * mean, .backward = 1.5 * mean}).forward;
  };
  EXPECT_NEAR(exposed(bare / 4) / bare, 0.75, 1e-9);
  EXPECT_EQ(exposed(2 * bare), 0);
  q.work.global_batch = 8;  // one micro-batch, beside which there is no other
  EXPECT_NEAR(exposed(2 * bare) / bare, 1, 1e-9);
}

TEST(ExposedExchanges, ActivationsTravelBesidePasses) {
  const Question q = exposed_question();
  Layout layout{.dp = 8};
  EXPECT_EQ(host_waits(q, layout, false, {}).forward, 0);
  layout.offload_activations = true;
  const double bytes = kept_bytes(q.work, layout, q.software, layout.recompute, false);
  const double seconds = bytes / q.cluster.host_bandwidth;
  const WaitSeconds wait =
      host_waits(q, layout, false, {.forward = seconds / 2, .backward = 2 * seconds});
  EXPECT_NEAR(wait.forward / seconds, 0.5, 1e-9);
  EXPECT_EQ(wait.backward, 0);
}

}  // namespace
}  // namespace ultra::planner
