// Contract of exercise 11.4: choose between layouts.
#include "chapters/11_five_d/planner/choose_layout.hpp"

#include <array>

#include "chapters/11_five_d/planner/fit.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFastest = "Hint: the most tokens per second and GPU.";
constexpr const char* kAllowed = "Hint: a layout must be possible and fit before it is predicted.";
constexpr const char* kFirst = "Hint: of equally fast layouts the first.";

constexpr const char* kLoss =
    "Hint: on each cluster a layout loses what it does not reach of the best one's speed, as a "
    "part of it; what counts is the greatest of these losses, not their sum.";
constexpr const char* kEveryDay =
    "Hint: a layout that cannot be on one of the clusters cannot be chosen, however fast it is on "
    "the others.";

Question on(replay::Cluster cluster) {
  return {.work = {.model = *find_model("llama2-13b"), .seq_len = 4096, .global_batch = 256},
          .cluster = std::move(cluster),
          .software = find_software("modern")};
}

/// Matrices shared inside nodes; or every layer's weights gathered by all.
const std::array<Layout, 2> kTwo = {Layout{.dp = 8, .tp = 8},
                                    Layout{.dp = 64,
                                           .zero = zero::ZeroStage::kParameters,
                                           .recompute = memory::Recompute::kSelective}};

TEST(ChooseLayout, ThreeClusters) {
  replay::Cluster slow_network = *replay::find_cluster("dgx-h100");
  slow_network.inter.bandwidth /= 40;
  replay::Cluster fast_network = *replay::find_cluster("dgx-h100");
  fast_network.inter.bandwidth *= 4;
  fast_network.intra.bandwidth /= 8;
  EXPECT_EQ(choose_layout(on(slow_network), kTwo), 0U) << kFastest;
  EXPECT_EQ(choose_layout(on(fast_network), kTwo), 1U) << kFastest;
  replay::Cluster small_memory = fast_network;
  small_memory.gpu.memory_bytes = largest_stage(on(fast_network), kTwo[0]).total();
  const double second = largest_stage(on(fast_network), kTwo[1]).total();
  if (second > small_memory.gpu.memory_bytes) {
    EXPECT_EQ(choose_layout(on(small_memory), kTwo), 0U) << kAllowed;
  } else {
    small_memory.gpu.memory_bytes = second;
    EXPECT_EQ(choose_layout(on(small_memory), kTwo), 1U) << kAllowed;
  }
}

TEST(ChooseLayout, PerGpuNotInAll) {
  // Twice the GPUs are faster together, but each does less.
  const Question q = on(*replay::find_cluster("dgx-h100"));
  const std::array<Layout, 2> layouts = {Layout{.dp = 32, .tp = 8}, Layout{.dp = 8, .tp = 8}};
  EXPECT_EQ(choose_layout(q, layouts), 1U) << kFastest;
}

TEST(ChooseLayout, WhatCannotBeIsNotChosenAndNoneAtAllIsAnErrorThatSaysWhy) {
  const Question q = on(*replay::find_cluster("dgx-h100"));
  const Layout odd{.dp = 7, .tp = 8};
  const Layout large{.dp = 64, .zero = zero::ZeroStage::kNone};
  EXPECT_EQ(choose_layout(q, std::array{odd, large, kTwo[0]}), 2U) << kAllowed;
  const Layout odder{.dp = 9, .tp = 8};
  EXPECT_THAT(message_of<ConfigError>([&] {
                (void)choose_layout(q, std::array{odd, large, odder});
              }),
              AllOf(HasSubstr(odd.str() + ": "), HasSubstr("multiple of dp x micro-batch 7"),
                    HasSubstr(large.str() + ": "), HasSubstr("needs"), HasSubstr(odder.str())))
      << kAllowed << " The error has a line on each.";
}

TEST(ChooseLayout, OfEqualOnesTheFirst) {
  const Question q = on(*replay::find_cluster("dgx-h100"));
  const std::array<Layout, 2> layouts = {kTwo[0], kTwo[0]};
  EXPECT_EQ(choose_layout(q, layouts), 0U) << kFirst;
}

class ChooseForAll : public ultra::test::RandomTest {
 protected:
  /// The same cluster with a network that is so many times as fast, links in the nodes, and GPUs.
  static Question day(double network, double inside, double gpus = 1) {
    replay::Cluster cluster = *replay::find_cluster("dgx-h100");
    cluster.inter.bandwidth *= network;
    cluster.intra.bandwidth *= inside;
    cluster.gpu.peak_flops *= gpus;
    return on(cluster);
  }
  static double speed(const Question& q, const Layout& layout) {
    return predict(q, layout).tokens_per_second / static_cast<double>(layout.gpus());
  }
  /// The greatest loss of a layout, by the fastest of all on each day.
  static double loss(const std::vector<Question>& days, const std::vector<Layout>& layouts,
                     std::size_t i) {
    double greatest = 0;
    for (const Question& q : days) {
      double best = 0;
      for (const Layout& other : layouts) best = std::max(best, speed(q, other));
      greatest = std::max(greatest, (best - speed(q, layouts[i])) / best);
    }
    return greatest;
  }
};

TEST_F(ChooseForAll, TheGreatestLossIsTheSmallest) {
  const std::vector<Layout> layouts = {
      kTwo[0], kTwo[1], Layout{.dp = 16, .tp = 4},
      Layout{.dp = 32, .tp = 2, .zero = zero::ZeroStage::kParameters},
      Layout{.dp = 16, .tp = 4, .recompute = memory::Recompute::kSelective}};
  for (int round = 0; round < 60; ++round) {
    std::vector<Question> days;
    for (std::size_t d = random.between(1, 4); d > 0; --d) {
      days.push_back(day(std::exp2(random.uniform(-5, 2)), std::exp2(random.uniform(-3, 1)),
                         std::exp2(random.uniform(-4, 1))));
    }
    std::vector<Layout> possible;
    for (const Layout& layout : layouts) {
      if (fit(days.front(), layout).fits) possible.push_back(layout);
    }
    ASSERT_GE(possible.size(), 2U);
    const std::size_t chosen = choose_for_all(days, possible);
    ASSERT_LT(chosen, possible.size());
    for (std::size_t i = 0; i < possible.size(); ++i) {
      EXPECT_LE(loss(days, possible, chosen), loss(days, possible, i) + 1e-12)
          << possible[i].str() << " loses less than " << possible[chosen].str() << "\n"
          << kLoss;
    }
  }
}

TEST_F(ChooseForAll, WhatIsTooLargeOnOneDayIsNotChosen) {
  // The second layout is the best on both days, and on one of them the GPUs have no room for it.
  Question large = day(4, 1.0 / 8);
  Question small = large;
  const double first = largest_stage(large, kTwo[0]).total();
  const double second = largest_stage(large, kTwo[1]).total();
  ASSERT_NE(first, second);
  small.cluster.gpu.memory_bytes = std::min(first, second);
  const std::size_t smaller = first < second ? 0 : 1;
  EXPECT_EQ(choose_for_all(std::array{large, small}, kTwo), smaller) << kEveryDay;
  EXPECT_EQ(choose_for_all(std::array{small, large}, kTwo), smaller) << kEveryDay;
}

TEST_F(ChooseForAll, NoneForAllIsAnError) {
  const std::array<Layout, 2> layouts = {
      kTwo[1], Layout{.dp = 8, .tp = 8, .zero = zero::ZeroStage::kNone, .micro_batch = 4}};
  Question tight = day(1, 1);
  tight.cluster.gpu.memory_bytes = largest_stage(tight, layouts[0]).total();
  ASSERT_LT(tight.cluster.gpu.memory_bytes, largest_stage(tight, layouts[1]).total());
  Question few = day(1, 1);
  few.work.global_batch = 32;  // fewer sequences than the first one's replicas
  EXPECT_THROW((void)choose_for_all(std::array{tight, few}, layouts), ConfigError) << kEveryDay;
  Question none = tight;
  none.cluster.gpu.memory_bytes = 1e9;
  EXPECT_THROW((void)choose_for_all(std::array{tight, none}, layouts), ConfigError) << kEveryDay;
}

TEST_F(ChooseForAll, OfEqualOnesTheFirst) {
  const std::array<Layout, 3> layouts = {kTwo[0], kTwo[1], kTwo[0]};
  EXPECT_NE(choose_for_all(std::array{day(1.0 / 40, 1)}, layouts), 2U) << kFirst;
}

TEST_F(ChooseForAll, ManyFairDaysDoNotMakeUpForABadOne) {
  const std::vector<Layout> layouts(kTwo.begin(), kTwo.end());
  const Question slow = day(1.0 / 40, 1);  // where the second loses much
  const Question fast = day(4, 1.0 / 8);   // where the first loses less
  const double bad = loss({slow}, layouts, 1);
  const double fair = loss({fast}, layouts, 0);
  ASSERT_LT(0, fair);
  ASSERT_LT(fair, bad);
  std::vector<Question> days = {slow};
  while (static_cast<double>(days.size() - 1) * fair < 2 * bad) days.push_back(fast);
  EXPECT_EQ(choose_for_all(days, layouts), 0U) << kLoss;
}

TEST_F(ChooseForAll, ALossIsAPartOfTheBest) {
  const std::vector<Layout> layouts(kTwo.begin(), kTwo.end());
  const double s = 1.0 / 64;  // on this day everything is slow
  const Question slow = day(s / 40, s, s);
  const Question fast = day(4, 1.0 / 8);
  const double bad = loss({slow}, layouts, 1);
  const double fair = loss({fast}, layouts, 0);
  ASSERT_LT(fair, bad);
  ASSERT_GT(fair * speed(fast, layouts[1]), bad * speed(slow, layouts[0])) << "in tokens";
  EXPECT_EQ(choose_for_all(std::array{slow, fast}, kTwo), 0U) << kLoss;
}

}  // namespace
}  // namespace ultra::planner
