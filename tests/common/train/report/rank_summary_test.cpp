#include "common/train/report/rank_summary.hpp"

#include <gtest/gtest.h>

#include <string>

#include "common/base/json.hpp"

namespace ultra::train {
namespace {

MemoryTracker some_memory() {
  MemoryTracker tracker;
  tracker.set_phase("setup");
  tracker.add(MemoryCategory::kParameters, 100);
  tracker.set_phase("step 1: forward, \"block\" 0");
  tracker.add(MemoryCategory::kActivations, 300);
  tracker.remove(MemoryCategory::kActivations, 300);
  tracker.set_phase("step 1: optimizer");
  tracker.add(MemoryCategory::kOptimizer, 200);
  return tracker;
}

/// Every member differs from its default and from the others.
RankSummary some_summary() {
  RankSummary summary{.rank = 3,
                      .memory = some_memory(),
                      .reserved_bytes = std::size_t{1} << 60,
                      .system_allocations = 17,
                      .seconds = {.compute = 1.0 / 3,
                                  .idle = 0.1,
                                  .forward_backward = 0.3,
                                  .optimizer = 1.0 / 7,
                                  .total = 0.7},
                      .communication = {}};
  summary.communication.busy_seconds = 2.0 / 3;
  summary.communication.exposed_seconds = 5e-324;
  summary.counters.add("attention_flops", 1e300);
  summary.counters.add("blocks", 1.0 / 3);
  std::size_t number = 1;
  for (const OpKind kind : kDataOpKinds) {
    summary.communication[kind] = {.operations = number, .sent_bytes = 1000 * number};
    ++number;
  }
  return summary;
}

TEST(MemoryPeaks, AreThoseOfTheTracker) {
  const MemoryPeaks peaks = some_memory();
  EXPECT_EQ(peaks.peak(MemoryCategory::kParameters).bytes, 100U);
  EXPECT_EQ(peaks.peak(MemoryCategory::kParameters).phase, "setup");
  EXPECT_EQ(peaks.peak(MemoryCategory::kActivations).bytes, 300U);
  EXPECT_EQ(peaks.peak(MemoryCategory::kOptimizer).phase, "step 1: optimizer");
  EXPECT_EQ(peaks.peak(MemoryCategory::kOther).bytes, 0U);
  EXPECT_EQ(peaks.peak_total().bytes, 400U);
  EXPECT_EQ(peaks.usage_at_peak()[MemoryCategory::kActivations], 300U);
  EXPECT_EQ(peaks.usage_at_peak()[MemoryCategory::kOptimizer], 0U);
}

TEST(RankSummaryJson, ComesBackWithEveryFigure) {
  const RankSummary before = some_summary();
  const std::string text = to_json(before).dump();
  const RankSummary after = rank_summary_from(Json::parse(text));
  EXPECT_EQ(to_json(after).dump(), text);

  EXPECT_EQ(after.rank, 3);
  for (const MemoryCategory category : kMemoryCategories) {
    EXPECT_EQ(after.memory.peak(category).bytes, before.memory.peak(category).bytes);
    EXPECT_EQ(after.memory.peak(category).phase, before.memory.peak(category).phase);
    EXPECT_EQ(after.memory.usage_at_peak()[category], before.memory.usage_at_peak()[category]);
  }
  EXPECT_EQ(after.memory.peak_total().bytes, 400U);
  EXPECT_EQ(after.memory.peak_total().phase, before.memory.peak_total().phase);
  EXPECT_EQ(after.reserved_bytes, std::size_t{1} << 60);
  EXPECT_EQ(after.system_allocations, 17U);
  EXPECT_EQ(after.seconds.compute, 1.0 / 3) << "to the last bit";
  EXPECT_EQ(after.seconds.idle, 0.1);
  EXPECT_EQ(after.seconds.forward_backward, 0.3);
  EXPECT_EQ(after.seconds.optimizer, 1.0 / 7);
  EXPECT_EQ(after.seconds.total, 0.7);
  EXPECT_EQ(after.communication.busy_seconds, 2.0 / 3);
  EXPECT_EQ(after.communication.exposed_seconds, 5e-324);
  EXPECT_EQ(after.communication.kinds, before.communication.kinds);
  EXPECT_EQ(after.counters.sums(), before.counters.sums());
}

TEST(RankSummaryJson, HasCountersOnlyWhereSomethingCounts) {
  EXPECT_FALSE(to_json(RankSummary()).contains("counters"));
}

TEST(RankSummaryJson, ListsOnlyOperationsThatTookPlace) {
  RankSummary summary;
  EXPECT_TRUE(to_json(summary).at("sent_bytes").is_object());
  EXPECT_TRUE(to_json(summary).at("sent_bytes").empty());
  summary.communication[OpKind::kAllReduce] = {.operations = 2, .sent_bytes = 0};
  summary.communication[OpKind::kBarrier] = {.operations = 5, .sent_bytes = 5};
  EXPECT_EQ(to_json(summary).at("sent_bytes"), (Json{{"all_reduce", 0}}));
  EXPECT_EQ(to_json(summary).at("operations"), (Json{{"all_reduce", 2}}))
      << "barriers move no data";
}

TEST(RankSummaryJson, SaysWhatIsBesideTheDevice) {
  RankSummary summary;
  EXPECT_FALSE(to_json(summary).contains("offload")) << "nothing is";
  const StorageTraffic traffic{.read_bytes = 1,
                               .written_bytes = 2,
                               .read_seconds = 0.1,
                               .write_seconds = 0.2,
                               .exposed_seconds = 1.0 / 3};
  summary.offload = {.stored_bytes = 7, .optimizer = traffic, .weights = traffic};
  summary.offload.weights.read_bytes = 5;
  const RankSummary after = rank_summary_from(Json::parse(to_json(summary).dump()));
  EXPECT_EQ(after.offload.stored_bytes, 7U);
  EXPECT_EQ(after.offload.optimizer.read_bytes, 1U);
  EXPECT_EQ(after.offload.optimizer.written_bytes, 2U);
  EXPECT_EQ(after.offload.optimizer.read_seconds, 0.1);
  EXPECT_EQ(after.offload.optimizer.write_seconds, 0.2);
  EXPECT_EQ(after.offload.optimizer.exposed_seconds, 1.0 / 3);
  EXPECT_EQ(after.offload.weights.read_bytes, 5U);
  EXPECT_EQ(after.offload.exposed_seconds(), 2.0 / 3);
}

}  // namespace
}  // namespace ultra::train
