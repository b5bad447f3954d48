// The uses of units along a schedule, and what Prefetch refuses: passes that run in another order.
//
// Covers: chapters/04_zero/prefetch.hpp

#include "chapters/04_zero/prefetch.hpp"

#include "chapters/01_memory/gradient_accumulation.hpp"
#include "chapters/04_zero/prefetch_condition.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using train::ActionKind;

/// Unit 0 forward, unit 1 forward, and backward.
Prefetch prefetch() {
  const auto nothing = [](std::size_t) {};
  Prefetch units(1, {.start_gather = [](const UnitUse&) {}, .wait = nothing, .release = nothing});
  units.follow({{0, UseKind::kForward},
                {1, UseKind::kForward},
                {1, UseKind::kBackward},
                {0, UseKind::kBackward}},
               Reshard::kAfterForward);
  return units;
}

TEST(Prefetch, AnotherOrderThanThatOfTheUsesIsAnError) {
  Prefetch units = prefetch();
  EXPECT_THAT(message_of<InternalError>([&] { units.gather(1); }),
              HasSubstr("unit 1 is used where the schedule has use 0 of 4"));
  units.gather(0);
  EXPECT_THROW(units.free(1), InternalError);
  units.free(0);
  EXPECT_THROW(units.free(0), InternalError) << "it is over";
  EXPECT_THAT(message_of<InternalError>([&] { units.gather(0); }), HasSubstr("use 1 of 4"));
}

TEST(Prefetch, OtherPassesAreFollowedBetweenSteps) {
  Prefetch units = prefetch();
  units.gather(0);
  EXPECT_THROW(units.follow({}, Reshard::kAfterForward), InternalError) << "a use is not over";
  units.free(0);
  units.follow({{1, UseKind::kForward}}, Reshard::kAfterForward);
  for (int step = 0; step < 2; ++step) {
    units.gather(1);
    units.free(1);
  }
}

/// "F0 R0 B0": forward, computed again, backward.
std::string text(std::span<const UnitUse> uses) {
  std::string all;
  for (const UnitUse& use : uses) {
    const char kind = "FRB"[static_cast<std::size_t>(use.kind)];
    all += fmt::format("{}{}{}", all.empty() ? "" : " ", kind, use.unit);
  }
  return all;
}

std::string uses(const train::StepSchedule& schedule, const std::vector<ChunkUnits>& chunks,
                 std::size_t recompute_every = 0) {
  return text(unit_uses(schedule, chunks, recompute_every));
}

TEST(UnitUses, OfOneStageGoForwardAndBackInEachMicroBatch) {
  const std::vector<ChunkUnits> chunks = {ChunkUnits::whole(4)};
  EXPECT_EQ(uses(memory::accumulation_schedule(1), chunks), "F0 F1 F2 F3 B3 B2 B1 B0");
  EXPECT_EQ(uses(memory::accumulation_schedule(2), chunks),
            "F0 F1 F2 F3 B3 B2 B1 B0 F0 F1 F2 F3 B3 B2 B1 B0");
  EXPECT_EQ(uses(memory::accumulation_schedule(1), {ChunkUnits::whole(2)}), "F0 F1 B1 B0");
}

TEST(UnitUses, BlocksAreComputedAgainInGroupsCountedFromTheFirst) {
  const std::vector<ChunkUnits> chunks = {ChunkUnits::whole(5)};  // of which 1, 2 and 3 are blocks
  const train::StepSchedule schedule = memory::accumulation_schedule(1);
  EXPECT_EQ(uses(schedule, chunks, 1), "F0 F1 F2 F3 F4 B4 R3 B3 R2 B2 R1 B1 B0");
  EXPECT_EQ(uses(schedule, chunks, 2), "F0 F1 F2 F3 F4 B4 R3 B3 R1 R2 B2 B1 B0");
  EXPECT_EQ(uses(schedule, chunks, 9), "F0 F1 F2 F3 F4 B4 R1 R2 R3 B3 B2 B1 B0");
}

/// The first rank of a V has the first chunk and the last one. Its head is two parts, for the table
/// is the embedding's too: they are used together.
TEST(UnitUses, OfTwoChunksInAVFollowTheirActions) {
  const std::vector<ChunkUnits> chunks = {{.units = {0, 1, 2}, .blocks = {1, 3}},
                                          {.units = {3, 4, 5}, .blocks = {0, 1}}};
  const train::StepSchedule schedule = {
      {ActionKind::kForward, 0, 0},  {ActionKind::kForward, 1, 0}, {ActionKind::kForward, 0, 1},
      {ActionKind::kBackward, 0, 1}, {ActionKind::kForward, 1, 1}, {ActionKind::kBackward, 0, 0},
      {ActionKind::kBackward, 1, 1}, {ActionKind::kBackward, 1, 0}};
  EXPECT_EQ(uses(schedule, chunks),
            "F0 F1 F2 F0 F1 F2 F3 F4 F5 B4 B5 B3 F3 F4 F5 B2 B1 B0 B4 B5 B3 B2 B1 B0");
  EXPECT_EQ(uses({{ActionKind::kBackward, 0, 0}}, chunks, 2), "R1 R2 B2 B1 B0");
  EXPECT_EQ(uses({{ActionKind::kBackward, 0, 1}}, chunks, 2), "B4 B5 R3 B3");
}

TEST(UnitUses, ATiedTableIsTheHeadsToo) {
  ChunkUnits chunk = ChunkUnits::whole(4);
  chunk.tied = 0;
  EXPECT_EQ(uses(memory::accumulation_schedule(1), {chunk}), "F0 F1 F2 F3 F0 B3 B0 B2 B1 B0");
}

TEST(UnitUses, GradientsOfWeightsThatWaitedReadNoWeights) {
  EXPECT_EQ(uses({{ActionKind::kForward, 0, 0},
                  {ActionKind::kBackwardInput, 0, 0},
                  {ActionKind::kBackwardWeight, 0, 0}},
                 {ChunkUnits::whole(3)}, 1),
            "F0 F1 F2 B2 R1 B1 B0");
}

/// Experts have a data group of their own: other units.
TEST(UnitUses, PartsWithoutAUnitAreLeftOut) {
  EXPECT_EQ(
      uses(memory::accumulation_schedule(1), {{.units = {{}, 0, {}, 1}, .blocks = {1, 3}}}, 1),
      "F0 F1 B1 R0 B0");
}

// When gathers are hidden: closed forms for equal units, and the Playbook's condition.

class PrefetchCondition : public test::RandomTest {
 protected:
  std::vector<UnitTimes> equal_units(const UnitTimes& unit) {
    return std::vector<UnitTimes>(random.between(1, 12), unit);
  }

  static double exposed(const std::vector<UnitTimes>& units, std::size_t ahead,
                        Reshard reshard = Reshard::kAfterForward) {
    return predict_pass(units, ahead, reshard).exposed;
  }
};

/// Every unit is gathered twice, but the head once: it stays at the turn.
TEST_F(PrefetchCondition, WithoutPrefetchEveryGatherIsExposed) {
  const UnitTimes unit{.forward = 2, .backward = 4, .gather = random.uniform(0.1, 9), .reduce = 0};
  const std::vector<UnitTimes> units = equal_units(unit);
  const double count = static_cast<double>(units.size());
  EXPECT_NEAR(exposed(units, 0), (2 * count - 1) * unit.gather, 1e-9);
  EXPECT_NEAR(exposed(units, 0, Reshard::kAfterBackward), count * unit.gather, 1e-9);
}

TEST_F(PrefetchCondition, OneUnitAheadHidesAGatherThatIsNotLongerThanAForwardPass) {
  const UnitTimes unit{.forward = 2, .backward = 4, .gather = random.uniform(0.1, 2), .reduce = 0};
  // The first unit of the forward pass has nothing before it.
  EXPECT_NEAR(exposed(equal_units(unit), 1), unit.gather, 1e-9);
  EXPECT_NEAR(exposed(equal_units(unit), 1, Reshard::kAfterBackward), unit.gather, 1e-9);
}

TEST_F(PrefetchCondition, WhatIsLongerThanAForwardPassIsExposedByTheDifference) {
  const UnitTimes unit{.forward = 2, .backward = 100, .gather = random.uniform(2, 20), .reduce = 0};
  const std::vector<UnitTimes> units = equal_units(unit);
  const double count = static_cast<double>(units.size());
  EXPECT_NEAR(exposed(units, 1, Reshard::kAfterBackward),
              unit.gather + (count - 1) * (unit.gather - unit.forward), 1e-9);
}

TEST_F(PrefetchCondition, ReductionsHideBehindTheNextBackwardPass) {
  const UnitTimes unit{.forward = 1, .backward = 3, .gather = 0, .reduce = random.uniform(0.1, 3)};
  EXPECT_NEAR(exposed(equal_units(unit), 1), unit.reduce, 1e-9) << "all but the last";
}

TEST_F(PrefetchCondition, NothingIsHiddenTwiceAndNoPassIsBeforeItsGather) {
  for (int round = 0; round < 50; ++round) {
    std::vector<UnitTimes> units(random.between(1, 9));
    double compute = 0;
    double travel = 0;
    for (UnitTimes& unit : units) {
      unit = {random.uniform(0, 2), random.uniform(0, 4), random.uniform(0, 3),
              random.uniform(0, 3)};
      compute += unit.forward + unit.backward;
      travel += 2 * unit.gather + unit.reduce;
    }
    travel -= units.back().gather;  // the head stays at the turn
    const std::size_t ahead = random.between(0, 4);
    const PassTimes times = predict_pass(units, ahead, Reshard::kAfterForward);
    EXPECT_NEAR(times.compute, compute, 1e-9);
    EXPECT_LE(times.exposed, travel + 1e-9);
    EXPECT_GE(times.exposed + 1e-9, travel - compute) << "the link cannot be faster than it is";
    EXPECT_LE(predict_pass(units, ahead, Reshard::kAfterBackward).exposed, travel + 1e-9);

    double rank = 0;  // when it is free
    double link = 0;
    double computed = 0;
    std::vector<double> there(units.size(), -1);
    for (const PassSpan& span : pass_timeline(units, ahead, Reshard::kAfterForward)) {
      const bool computes = span.work == PassWork::kForward || span.work == PassWork::kBackward;
      double& free = computes ? rank : link;
      EXPECT_GE(span.begin, free) << to_string(span.work) << " of unit " << span.unit;
      free = span.end;
      if (span.work == PassWork::kGather) there[span.unit] = span.end;
      if (!computes) continue;
      computed += span.end - span.begin;
      EXPECT_GE(there[span.unit], 0) << "unit " << span.unit << " was never gathered";
      EXPECT_GE(span.begin, there[span.unit]);
    }
    EXPECT_NEAR(computed, times.compute, 1e-9);
    EXPECT_NEAR(std::max(rank, link), times.compute + times.exposed, 1e-9);
  }
}

TEST_F(PrefetchCondition, ThePlaybooksThresholds) {
  // In elements, with 989 TFLOP/s and 450 GB/s: 961.5 tokens on 8 ranks, 1099 on many.
  EXPECT_NEAR(gather_over_forward(1, 8, 1, 989e12, 450e9), 961.5, 0.1);
  EXPECT_NEAR(gather_over_forward(1099, 1'000'000, 1, 989e12, 450e9), 1, 1e-3);
  // In bytes of bf16 twice as many.
  EXPECT_NEAR(gather_over_forward(2198, 1'000'000, 2, 989e12, 450e9), 1, 1e-3);
  EXPECT_EQ(gather_over_forward(100, 1, 2, 989e12, 450e9), 0) << "nothing to gather";
}

}  // namespace
}  // namespace ultra::zero
