#include "chapters/06_context_parallel/cost/ring_overlap.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/random.hpp"

namespace ultra::context_parallel {
namespace {

class RingOverlap : public ultra::test::RandomTest {
 protected:
  /// A rank and its link, step by step.
  static double exposed_by_steps(int ranks, const RingStepTimes& step) {
    double now = 0;
    double link = 0;  // free from then on
    double computed = 0;
    const auto send = [&] {
      link = std::max(link, now) + step.transfer;
      return link;
    };
    for (int s = 0; s < ranks; ++s) {  // forward
      const double arrival = s + 1 < ranks ? send() : 0;
      now += step.forward;
      computed += step.forward;
      now = std::max(now, arrival);
    }
    double d_arrival = 0;
    for (int s = 0; s < ranks; ++s) {  // backward
      const double arrival = s + 1 < ranks ? send() : 0;
      now += step.backward;
      computed += step.backward;
      now = std::max(now, d_arrival);
      if (ranks > 1) d_arrival = send();
      now = std::max(now, arrival);
    }
    return std::max(now, d_arrival) - computed;
  }
};

TEST_F(RingOverlap, OneRankSendsNothing) {
  const RingTimes times = predict_ring(1, {.forward = 2, .backward = 5, .transfer = 9});
  EXPECT_EQ(times.compute, 7);
  EXPECT_EQ(times.communication, 0);
  EXPECT_EQ(times.exposed, 0);
}

// The closed form is what a rank and its link do, where blocks hide all or nothing of two transfers.
TEST_F(RingOverlap, EqualsARankAndItsLinkStepByStep) {
  for (int round = 0; round < 200; ++round) {
    const auto ranks = static_cast<int>(random.between(2, 9));
    const RingStepTimes step{.forward = random.uniform(0, 3),
                             .backward = random.uniform(0, 6),
                             .transfer = random.uniform(0, 3)};
    const double exposed = predict_ring(ranks, step).exposed;
    const double followed = exposed_by_steps(ranks, step);
    // With 1 < C / t < 2 the keys of the next step begin before the gradients of this one are there:
    // what the closed form counts per step can be up to one transfer per pass from what happens.
    EXPECT_NEAR(exposed, followed, step.transfer + 1e-9);
    if (step.transfer <= step.backward / 2 || step.backward == 0) {
      EXPECT_NEAR(exposed, followed, 1e-9);
    }
  }
}

TEST_F(RingOverlap, TheConditionDependsOnTokensPerRankOnly) {
  // An H100 at half of its peak, and 450 GB/s: in bf16, and with keys of their own for all heads.
  EXPECT_NEAR(tokens_that_hide(1, 2, 989e12 / 2, 450e9), 2198, 1);
  EXPECT_NEAR(tokens_that_hide(4, 2, 989e12 / 2, 450e9), 549, 1) << "Llama's 4 heads per key";
  EXPECT_NEAR(transfer_over_compute(2198, 1, 2, 989e12 / 2, 450e9), 1, 1e-3);
  EXPECT_NEAR(transfer_over_compute(4396, 1, 2, 989e12 / 2, 450e9), 0.5, 1e-3);
}

}  // namespace
}  // namespace ultra::context_parallel
