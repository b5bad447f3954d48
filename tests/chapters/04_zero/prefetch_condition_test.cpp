// When gathers are hidden: closed forms for equal units, and the Playbook's condition.

#include "chapters/04_zero/prefetch_condition.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

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

TEST_F(PrefetchCondition, NothingIsHiddenTwiceAndNoMoreThanThereIs) {
  for (int round = 0; round < 50; ++round) {
    std::vector<UnitTimes> units(random.between(1, 9));
    double compute = 0;
    double link = 0;
    for (UnitTimes& unit : units) {
      unit = {random.uniform(0, 2), random.uniform(0, 4), random.uniform(0, 3),
              random.uniform(0, 3)};
      compute += unit.forward + unit.backward;
      link += 2 * unit.gather + unit.reduce;
    }
    link -= units.back().gather;  // the head stays at the turn
    const std::size_t ahead = random.between(0, 4);
    const PassTimes times = predict_pass(units, ahead, Reshard::kAfterForward);
    EXPECT_NEAR(times.compute, compute, 1e-9);
    EXPECT_LE(times.exposed, link + 1e-9);
    EXPECT_GE(times.exposed + 1e-9, link - compute) << "the link cannot be faster than it is";
    EXPECT_LE(predict_pass(units, ahead, Reshard::kAfterBackward).exposed, link + 1e-9);
  }
}

TEST_F(PrefetchCondition, TheTimelineHasOneThingAtATimeAndNoPassBeforeItsGather) {
  for (int round = 0; round < 50; ++round) {
    std::vector<UnitTimes> units(random.between(1, 9));
    for (UnitTimes& unit : units) {
      unit = {random.uniform(0, 2), random.uniform(0, 4), random.uniform(0, 3),
              random.uniform(0, 3)};
    }
    const std::size_t ahead = random.between(0, 4);
    const PassTimes times = predict_pass(units, ahead, Reshard::kAfterForward);
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
