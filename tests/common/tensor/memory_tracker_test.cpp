#include "common/tensor/memory_tracker.hpp"

#include <set>

#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using enum MemoryCategory;

TEST(MemoryTracker, CountsEachCategoryByItself) {
  MemoryTracker tracker;
  tracker.add(kParameters, 100);
  tracker.add(kGradients, 30);
  tracker.add(kParameters, 7);
  tracker.remove(kParameters, 50);
  EXPECT_EQ(tracker.current()[kParameters], 57U);
  EXPECT_EQ(tracker.current()[kGradients], 30U);
  EXPECT_EQ(tracker.current()[kOptimizer], 0U);
  EXPECT_EQ(tracker.current().total(), 87U);
}

TEST(MemoryTracker, APeakCarriesThePhaseInWhichItWasReached) {
  MemoryTracker tracker;
  tracker.add(kActivations, 1);
  EXPECT_EQ(tracker.peak(kActivations).phase, "setup");
  tracker.set_phase("step 1: forward");
  tracker.add(kActivations, 99);
  tracker.set_phase("step 1: backward");
  tracker.remove(kActivations, 60);
  tracker.add(kGradients, 80);
  tracker.set_phase("step 1: optimizer");
  tracker.remove(kActivations, 40);

  EXPECT_EQ(tracker.peak(kActivations).bytes, 100U);
  EXPECT_EQ(tracker.peak(kActivations).phase, "step 1: forward");
  EXPECT_EQ(tracker.peak(kGradients).bytes, 80U);
  EXPECT_EQ(tracker.peak(kGradients).phase, "step 1: backward");
  EXPECT_EQ(tracker.peak_total().bytes, 120U);
  EXPECT_EQ(tracker.peak_total().phase, "step 1: backward");
  EXPECT_EQ(tracker.usage_at_peak()[kActivations], 40U);
  EXPECT_EQ(tracker.usage_at_peak()[kGradients], 80U);
  EXPECT_EQ(tracker.usage_at_peak().total(), tracker.peak_total().bytes);
}

TEST(MemoryTracker, APeakThatIsReachedAgainKeepsItsFirstPhase) {
  MemoryTracker tracker;
  tracker.set_phase("first");
  tracker.add(kOther, 10);
  tracker.remove(kOther, 10);
  tracker.set_phase("second");
  tracker.add(kOther, 10);
  EXPECT_EQ(tracker.peak(kOther).phase, "first");
  EXPECT_EQ(tracker.peak_total().phase, "first");
}

TEST(MemoryTracker, AMoveChangesCategoriesButNotTheTotal) {
  MemoryTracker tracker;
  tracker.add(kOther, 64);
  tracker.move(kOther, kActivations, 24);
  EXPECT_EQ(tracker.current()[kOther], 40U);
  EXPECT_EQ(tracker.current()[kActivations], 24U);
  EXPECT_EQ(tracker.current().total(), 64U);
  EXPECT_EQ(tracker.peak(kActivations).bytes, 24U);
  EXPECT_EQ(tracker.peak(kOther).bytes, 64U);
  EXPECT_EQ(tracker.peak_total().bytes, 64U);
}

TEST(MemoryTracker, ResettingStartsThePeaksFromTheCurrentUsage) {
  MemoryTracker tracker;
  tracker.add(kParameters, 10);
  tracker.add(kOther, 90);
  tracker.remove(kOther, 85);
  tracker.set_phase("step 2");
  tracker.reset_peaks();
  EXPECT_EQ(tracker.peak_total().bytes, 15U);
  EXPECT_EQ(tracker.peak_total().phase, "step 2");
  EXPECT_EQ(tracker.peak(kOther).bytes, 5U);
  EXPECT_EQ(tracker.usage_at_peak()[kParameters], 10U);
  tracker.add(kOther, 1);
  EXPECT_EQ(tracker.peak_total().bytes, 16U);
}

TEST(MemoryTracker, TheListenerSeesEveryChange) {
  MemoryTracker tracker;
  std::vector<std::size_t> totals;
  tracker.set_listener([&](const MemoryUsage& usage) { totals.push_back(usage.total()); });
  tracker.add(kOther, 5);
  tracker.add(kGradients, 6);
  tracker.move(kOther, kActivations, 5);
  tracker.remove(kGradients, 6);
  tracker.set_listener({});
  tracker.remove(kActivations, 5);
  EXPECT_THAT(totals, ElementsAre(5U, 11U, 11U, 5U));
}

TEST(MemoryTracker, TakingMoreThanThereIsIsABug) {
  MemoryTracker tracker;
  tracker.add(kOther, 5);
  EXPECT_THAT(message_of<InternalError>([&] { tracker.remove(kOther, 6); }),
              HasSubstr("more bytes freed"));
  EXPECT_THAT(message_of<InternalError>([&] { tracker.remove(kGradients, 1); }),
              HasSubstr("more bytes freed"));
  EXPECT_THAT(message_of<InternalError>([&] { tracker.move(kOther, kGradients, 6); }),
              HasSubstr("more bytes moved"));
  EXPECT_EQ(tracker.current()[kOther], 5U);
}

TEST(MemoryCategory, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (const MemoryCategory category : kMemoryCategories) names.emplace(to_string(category));
  EXPECT_EQ(names, (std::set<std::string>{"parameters", "gradients", "optimizer", "activations",
                                          "communication", "other"}));
}

}  // namespace
}  // namespace ultra
