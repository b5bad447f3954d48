// Contract of exercise 04.5: the uses of some steps with actions that only take notes, and that
// know at any time which units are there, under way, and needed by the next uses.
#include "chapters/04_zero/prefetch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "chapters/04_zero/unit_uses.hpp"
#include "tests/support/random.hpp"

namespace ultra::zero {
namespace {

constexpr const char* kWindow =
    "when a use begins, its own unit has been asked for, and those of the next `ahead` uses, as "
    "far as "
    "there are any.";
constexpr const char* kLastUse =
    "there is no use after the last one of the step: the weights of the next step are not made "
    "yet.";
constexpr const char* kNotCounted =
    "the backward pass of a unit that was just computed again does not count: look one use "
    "further.";
constexpr const char* kInOrder =
    "units are asked for in the order of their uses: what is needed first travels first.";
constexpr const char* kOnce =
    "a unit that is there, or under way, is not asked for again, its memory is taken: ask_for() "
    "looks at that.";
constexpr const char* kAskFirst =
    "ask for all units of the window, then wait: so they travel while the rank waits.";
constexpr const char* kWaitForOne =
    "only the unit of this use is waited for: the others have time until their own use.";
constexpr const char* kNotThere =
    "a unit is there when its use begins: ask for it, and wait for it.";
constexpr const char* kReleaseEarly =
    "with Reshard::kAfterForward a unit is released as soon as it has run forward, unless its "
    "backward pass is the next use.";
constexpr const char* kTurn =
    "at the turn from forward to backward the last unit is the first one again: when the next use "
    "is the unit's backward pass, it stays.";
constexpr const char* kStays =
    "with Reshard::kAfterBackward a unit stays from its forward pass to its backward pass.";
constexpr const char* kStaysForOthers =
    "another micro-batch has used the unit forward too, and its backward pass is still to come: "
    "with Reshard::kAfterBackward the unit stays until the last of them.";
constexpr const char* kRecomputed =
    "after a recomputation the unit's backward pass comes next, so it stays.";
constexpr const char* kReleaseInTheEnd =
    "when no micro-batch's backward pass is to come nobody needs the unit: release it, whatever "
    "`reshard` says.";

/// "F0", "R0", "B0": forward, computed again, backward.
std::string text(const UnitUse& use) {
  return fmt::format("{}{}", "FRB"[static_cast<std::size_t>(use.kind)], use.unit);
}

/// The uses of a step, and how its units are gathered.
struct Case {
  std::vector<UnitUse> uses;
  std::size_t ahead = 0;
  Reshard reshard = Reshard::kAfterForward;

  [[nodiscard]] std::string str() const {
    std::string all =
        fmt::format("{} ahead, Reshard::{}:", ahead,
                    reshard == Reshard::kAfterForward ? "kAfterForward" : "kAfterBackward");
    for (const UnitUse& use : uses) all += " " + text(use);
    return all;
  }
  /// Whether a use is the backward pass of a unit that was just computed again.
  [[nodiscard]] bool follows_its_recomputation(std::size_t use) const {
    return uses[use].kind == UseKind::kBackward && use > 0 &&
           uses[use - 1] == UnitUse{uses[use].unit, UseKind::kRecomputation};
  }
  /// Whether the backward pass of a use's unit is the next use.
  [[nodiscard]] bool is_at_the_turn(std::size_t use) const {
    return use + 1 < uses.size() && uses[use + 1] == UnitUse{uses[use].unit, UseKind::kBackward};
  }
  /// The uses whose units have been asked for when a use begins.
  [[nodiscard]] std::vector<std::size_t> window(std::size_t use) const {
    std::vector<std::size_t> all = {use};
    for (std::size_t next = use + 1; next < uses.size() && all.size() <= ahead; ++next) {
      if (!follows_its_recomputation(next)) all.push_back(next);
    }
    return all;
  }
  /// Forward passes of a unit, up to a use, whose backward pass comes after it.
  [[nodiscard]] long under_way(std::size_t use) const {
    const auto end = uses.begin() + static_cast<std::ptrdiff_t>(use) + 1;
    const auto count = [&](UseKind kind) {
      return std::count(uses.begin(), end, UnitUse{uses[use].unit, kind});
    };
    return count(UseKind::kForward) - count(UseKind::kBackward);
  }
};

/// Runs the uses of a case and finds the first thing that is wrong.
class Trial {
 public:
  explicit Trial(Case the_case)
      : case_(std::move(the_case)),
        prefetch_(case_.uses, case_.ahead, case_.reshard,
                  {.start_gather = [this](const UnitUse& use) { start_gather(use); },
                   .wait = [this](std::size_t unit) { wait(unit); },
                   .release = [this](std::size_t unit) { release(unit); }}) {
    for (const UnitUse& use : case_.uses) units_.resize(std::max(units_.size(), use.unit + 1));
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  /// What is wrong in some steps, with what was called before; empty when nothing is.
  std::string run(int steps = 1) {
    for (; steps > 0 && problem_.empty(); --steps) {
      for (use_ = 0; use_ < case_.uses.size() && problem_.empty(); ++use_) run_use();
    }
    if (problem_.empty()) return {};
    const std::size_t shown = std::min<std::size_t>(calls_.size(), 12);
    return fmt::format(
        "{}\n{}\nThe last calls, and what they did:\n  {}\n", case_.str(), problem_,
        fmt::join(calls_.end() - static_cast<std::ptrdiff_t>(shown), calls_.end(), "\n  "));
  }

  /// What each call did.
  [[nodiscard]] const std::vector<std::string>& calls() const { return calls_; }

 private:
  enum class State { kReleased, kUnderWay, kThere };

  [[nodiscard]] const UnitUse& current() const { return case_.uses[use_]; }

  void expect(bool condition, const std::string& what, const char* hint) {
    if (condition || !problem_.empty()) return;
    problem_ = fmt::format("{}\nHint: {}", what, hint);
  }

  // The actions -----------------------------------------------------------------------------------

  void start_gather(const UnitUse& use) {
    calls_.back() += fmt::format(" start_gather({})", text(use));
    expect(!waited_, fmt::format("{} is asked for after {} has waited", text(use), text(current())),
           kAskFirst);
    expect(units_[use.unit] == State::kReleased,
           fmt::format("unit {} is asked for while it is there or under way", use.unit), kOnce);
    const std::vector<std::size_t> window = case_.window(use_);
    const auto place =
        std::ranges::find_if(window, [&](std::size_t needed) { return case_.uses[needed] == use; });
    expect(place != window.end(), fmt::format("{} is asked for too early", text(use)),
           window.back() + 1 == case_.uses.size() ? kLastUse : kWindow);
    expect(place - window.begin() >= last_asked_,
           fmt::format("{} is asked for behind a later use", text(use)), kInOrder);
    last_asked_ = place - window.begin();
    units_[use.unit] = State::kUnderWay;
  }

  void wait(std::size_t unit) {
    calls_.back() += fmt::format(" wait({})", unit);
    expect(unit == current().unit,
           fmt::format("unit {} is waited for in {}", unit, text(current())), kWaitForOne);
    expect(units_[unit] != State::kReleased,
           fmt::format("unit {} is waited for, but was not asked for", unit), kNotThere);
    waited_ = true;
    units_[unit] = State::kThere;
  }

  void release(std::size_t unit) {
    calls_.back() += fmt::format(" release({})", unit);
    units_[unit] = State::kReleased;
  }

  // The uses --------------------------------------------------------------------------------------

  void expect_window() {
    for (const std::size_t needed : case_.window(use_)) {
      const UnitUse& use = case_.uses[needed];
      bool skipped = false;  // before it: a use that does not count
      for (std::size_t i = use_ + 1; i < needed; ++i) {
        skipped = skipped || case_.follows_its_recomputation(i);
      }
      expect(units_[use.unit] != State::kReleased,
             fmt::format("{} begins, and unit {} of {} has not been asked for", text(current()),
                         use.unit, text(use)),
             skipped ? kNotCounted : kWindow);
    }
  }

  void run_use() {
    last_asked_ = 0;
    waited_ = false;
    calls_.push_back(fmt::format("begin({}):", current().unit));
    prefetch_.begin(current().unit);
    expect(waited_ && units_[current().unit] == State::kThere,
           fmt::format("{} begins, and its unit is not there", text(current())), kNotThere);
    expect_window();
    if (!problem_.empty()) return;
    calls_.push_back(fmt::format("end({}):", current().unit));
    prefetch_.end(current().unit);
    expect_end();
  }

  void expect_end() {
    const bool there = units_[current().unit] != State::kReleased;
    const bool forward = current().kind == UseKind::kForward;
    const long under_way = case_.under_way(use_);
    const bool recomputed = current().kind == UseKind::kRecomputation;
    const bool kept = case_.reshard == Reshard::kAfterBackward && under_way > 0;
    expect(there || !recomputed, text(current()) + " is over, and its unit was released",
           kRecomputed);
    const bool turns = case_.is_at_the_turn(use_);
    expect(there || !turns, text(current()) + " is over, and its unit was released", kTurn);
    expect(there || !kept, text(current()) + " is over, and its unit was released",
           forward ? kStays : kStaysForOthers);
    expect(!there || recomputed || turns || kept,
           text(current()) + " is over, and its unit is still there",
           forward ? kReleaseEarly : kReleaseInTheEnd);
  }

  Case case_;
  std::vector<State> units_;
  std::vector<std::string> calls_;
  std::string problem_;
  std::size_t use_ = 0;            // the one that began last
  std::ptrdiff_t last_asked_ = 0;  // place in its window of what was asked for last
  bool waited_ = false;            // for its unit
  Prefetch prefetch_;
};

class PrefetchTest : public ultra::test::RandomTest {
 protected:
  static void expect_passes(const Case& the_case, int steps = 1) {
    const std::string problem = Trial(the_case).run(steps);
    EXPECT_TRUE(problem.empty()) << problem;
  }

  /// Both kinds, 0 to `most_ahead` ahead.
  static void expect_all(const std::vector<UnitUse>& uses, std::size_t most_ahead) {
    for (const Reshard reshard : {Reshard::kAfterForward, Reshard::kAfterBackward}) {
      for (std::size_t ahead = 0; ahead <= most_ahead && !HasFailure(); ++ahead) {
        expect_passes({.uses = uses, .ahead = ahead, .reshard = reshard});
      }
    }
  }

  static std::vector<UnitUse> uses_of(std::size_t units, const train::StepSchedule& schedule,
                                      std::size_t recompute_every = 0) {
    const std::vector<ChunkUnits> chunks = {ChunkUnits::whole(units)};
    return unit_uses(schedule, chunks, recompute_every);
  }

  /// Micro-batches of which at most so many have run forward and not yet backward.
  train::StepSchedule draw_schedule(std::size_t micro_batches, std::size_t most_under_way) {
    train::StepSchedule schedule;
    for (std::size_t forward = 0, backward = 0; backward < micro_batches;) {
      const bool can_go_on = forward < micro_batches && forward - backward < most_under_way;
      if (can_go_on && (forward == backward || random.between(0, 1) == 1)) {
        schedule.push_back({.kind = train::ActionKind::kForward, .micro_batch = forward++});
      } else {
        schedule.push_back({.kind = train::ActionKind::kBackward, .micro_batch = backward++});
      }
    }
    return schedule;
  }

  Case draw(std::size_t most_under_way, std::size_t most_together) {
    const train::StepSchedule schedule = draw_schedule(random.between(1, 5), most_under_way);
    return {.uses = uses_of(random.between(2, 9), schedule, random.between(0, most_together)),
            .ahead = random.between(0, 7),
            .reshard = random.pick({Reshard::kAfterForward, Reshard::kAfterBackward})};
  }
};

const train::StepSchedule kOneMicroBatch = {{.kind = train::ActionKind::kForward},
                                            {.kind = train::ActionKind::kBackward}};

TEST_F(PrefetchTest, WithoutLookingAheadUnitsComeOneByOne) {
  for (std::size_t units = 2; units <= 5; ++units) expect_all(uses_of(units, kOneMicroBatch), 0);
}

TEST_F(PrefetchTest, LooksAheadAlsoAroundTheTurnButNotBehindTheLastUse) {
  for (std::size_t units = 2; units <= 6; ++units) {
    expect_all(uses_of(units, kOneMicroBatch), 2 * units + 1);
  }
}

TEST_F(PrefetchTest, AUnitThatIsComputedAgainStaysForItsBackwardPass) {
  for (std::size_t units = 3; units <= 6; ++units) {
    expect_all(uses_of(units, kOneMicroBatch, 1), 2 * units);
  }
}

TEST_F(PrefetchTest, UnitsMayBeComputedAgainTogether) {
  for (int i = 0; i < 200 && !HasFailure(); ++i) expect_passes(draw(1, 4));
}

TEST_F(PrefetchTest, LooksAheadFromOneMicroBatchToTheNext) {
  for (int i = 0; i < 200 && !HasFailure(); ++i) expect_passes(draw(1, 0));
}

/// As in a pipeline: F0 F1 B0 B1.
TEST_F(PrefetchTest, AUnitServesSeveralMicroBatchesThatAreUnderWay) {
  for (int i = 0; i < 200 && !HasFailure(); ++i) expect_passes(draw(4, 2));
}

TEST_F(PrefetchTest, EveryStepBeginsAgain) {
  for (int i = 0; i < 100 && !HasFailure(); ++i) expect_passes(draw(3, 2), 3);
}

TEST_F(PrefetchTest, WorkedByHand) {
  Trial trial({.uses = uses_of(3, kOneMicroBatch), .ahead = 1, .reshard = Reshard::kAfterForward});
  const std::string problem = trial.run();
  EXPECT_TRUE(problem.empty()) << problem;
  const std::vector<std::string> expected = {
      "begin(0): start_gather(F0) start_gather(F1) wait(0)",
      "end(0): release(0)",
      "begin(1): start_gather(F2) wait(1)",
      "end(1): release(1)",
      "begin(2): wait(2)",
      "end(2):",
      "begin(2): start_gather(B1) wait(2)",
      "end(2): release(2)",
      "begin(1): start_gather(B0) wait(1)",
      "end(1): release(1)",
      "begin(0): wait(0)",
      "end(0): release(0)",
  };
  EXPECT_EQ(trial.calls(), expected);
}

}  // namespace
}  // namespace ultra::zero
