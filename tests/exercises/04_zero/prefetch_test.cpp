// Contract of exercise 04.5: the passes of some micro-batches with actions that only take notes,
// and that know at any time which units are there, under way, and needed by the next uses.
#include "chapters/04_zero/prefetch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "common/tensor/shape.hpp"
#include "tests/support/random.hpp"

namespace ultra::zero {
namespace {

constexpr const char* kWindow =
    "when a use begins, the units of the uses [use, use + ahead] have been asked for: its own, and "
    "those of the next `ahead` uses, as far as there are any.";
constexpr const char* kTurn =
    "after the turn the units come in the opposite order: use U is that of unit U - 1 again, use "
    "2 U - 1 that of unit 0.";
constexpr const char* kInOrder =
    "units are asked for in the order of their uses: what is needed first travels first.";
constexpr const char* kOnce =
    "a unit that is there, or under way, is not asked for again: its memory is taken.";
constexpr const char* kAskFirst =
    "ask for all units of the window, then wait: so they travel while the rank waits.";
constexpr const char* kWaitForOne =
    "only the unit of this use is waited for: the others have time until their own use.";
constexpr const char* kNotThere =
    "a unit is there when its use begins: ask for it, and wait for it.";
constexpr const char* kAskAgain =
    "a unit that was released must be asked for again: note that it is not there any more.";
constexpr const char* kReleaseEarly =
    "with Reshard::kAfterForward a unit is released as soon as it has run forward.";
constexpr const char* kStays =
    "with Reshard::kAfterBackward a unit stays from its forward pass to its backward pass.";
constexpr const char* kRecomputed =
    "a forward pass within the backward pass is a recomputation: the unit's backward pass comes "
    "next, so it stays.";
constexpr const char* kReleaseInTheEnd =
    "after its backward pass nobody needs the unit: release it, whatever `reshard` says.";
constexpr const char* kReleaseOnce = "a unit is released once, and only when it is there.";
constexpr const char* kNextMicroBatch =
    "after the backward pass of unit 0 the next micro-batch begins: its forward passes are no "
    "recomputations.";

std::string text(Reshard reshard) {
  return reshard == Reshard::kAfterForward ? "Reshard::kAfterForward" : "Reshard::kAfterBackward";
}

/// A model, and how it is trained.
struct Case {
  std::size_t units = 1;
  std::size_t ahead = 0;
  Reshard reshard = Reshard::kAfterForward;
  std::vector<Range> recomputed{};  ///< units that are computed again together, before any of them
                                    ///< runs backward; in ascending order, never the last unit
  std::size_t micro_batches = 2;

  [[nodiscard]] std::string str() const {
    std::string all = fmt::format("{} units, {} ahead, {}", units, ahead, text(reshard));
    for (const Range& group : recomputed) {
      all += fmt::format(", [{}, {}) recomputed", group.begin, group.end);
    }
    return all;
  }
};

/// Runs the passes of a case and finds the first thing that is wrong.
class Trial {
 public:
  explicit Trial(const Case& the_case)
      : case_(the_case),
        units_(the_case.units),
        prefetch_(the_case.units, the_case.ahead, the_case.reshard,
                  {.start_gather = [this](std::size_t unit) { start_gather(unit); },
                   .wait = [this](std::size_t unit) { wait(unit); },
                   .release = [this](std::size_t unit) { release(unit); }}) {
    for (const Range& group : case_.recomputed)
      largest_group_ = std::max(largest_group_, group.size());
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  /// What is wrong, with what was called before; empty when nothing is.
  std::string run() {
    for (; micro_batch_ < case_.micro_batches && problem_.empty(); ++micro_batch_) {
      run_micro_batch();
    }
    if (problem_.empty()) return {};
    const std::size_t shown = std::min<std::size_t>(calls_.size(), 12);
    return fmt::format(
        "{}: {}\nThe last calls, and what they did:\n  {}\n", case_.str(), problem_,
        fmt::join(calls_.end() - static_cast<std::ptrdiff_t>(shown), calls_.end(), "\n  "));
  }

  /// What each call did.
  [[nodiscard]] const std::vector<std::string>& calls() const { return calls_; }

 private:
  enum class State { kReleased, kUnderWay, kThere };
  enum class PassKind { kForward, kRecomputation, kBackward };
  struct Unit {
    State state = State::kReleased;
    std::size_t gathers = 0;
  };

  /// Units in the order of their uses.
  [[nodiscard]] std::vector<std::size_t> uses() const {
    std::vector<std::size_t> order;
    for (std::size_t unit = 0; unit < case_.units; ++unit) order.push_back(unit);
    for (std::size_t unit = case_.units; unit-- > 0;) order.push_back(unit);
    return order;
  }
  [[nodiscard]] std::vector<std::size_t> window() const {
    const std::vector<std::size_t> order = uses();
    const std::size_t end = std::min(use_ + case_.ahead + 1, order.size());
    return {order.begin() + static_cast<std::ptrdiff_t>(use_),
            order.begin() + static_cast<std::ptrdiff_t>(end)};
  }

  void expect(bool condition, const std::string& what, const char* hint) {
    if (condition || !problem_.empty()) return;
    // What went well in the first micro-batch goes wrong when something is left of it.
    const bool again = micro_batch_ > 0 && pass_ == PassKind::kForward;
    problem_ = fmt::format("{}\nHint: {}", what, again ? kNextMicroBatch : hint);
  }

  bool is_unit(std::size_t unit) {
    expect(unit < case_.units, fmt::format("there is no unit {}", unit), kTurn);
    return unit < case_.units;
  }

  // The actions -----------------------------------------------------------------------------------

  void start_gather(std::size_t unit) {
    calls_.back() += fmt::format(" start_gather({})", unit);
    if (!is_unit(unit)) return;
    expect(units_[unit].state == State::kReleased,
           fmt::format("unit {} is asked for while it is there or under way", unit), kOnce);
    const std::vector<std::size_t> needed = window();
    const auto place = std::find(needed.begin(), needed.end(), unit);
    expect(place != needed.end(),
           fmt::format("unit {} is asked for; the uses of the window need {}", unit,
                       fmt::join(needed, " ")),
           is_of_forward_order(unit) ? kTurn : kWindow);
    expect(place >= needed.begin() + last_asked_,
           fmt::format("unit {} is asked for late: the uses need {}", unit, fmt::join(needed, " ")),
           kInOrder);
    last_asked_ = place - needed.begin();
    units_[unit].state = State::kUnderWay;
    ++units_[unit].gathers;
    const auto taken = static_cast<std::size_t>(std::count_if(
        units_.begin(), units_.end(), [](const Unit& u) { return u.state != State::kReleased; }));
    expect(case_.reshard == Reshard::kAfterBackward || taken <= case_.ahead + largest_group_,
           fmt::format("{} units take memory, expected at most {}", taken,
                       case_.ahead + largest_group_),
           kWindow);
  }

  /// Whether a use of the window would be this unit's if units came in forward order again.
  [[nodiscard]] bool is_of_forward_order(std::size_t unit) const {
    const std::size_t use = case_.units + unit;
    return use >= use_ && use <= use_ + case_.ahead;
  }

  void wait(std::size_t unit) {
    calls_.back() += fmt::format(" wait({})", unit);
    if (!is_unit(unit)) return;
    expect(unit == used_, fmt::format("unit {} is waited for in a use of unit {}", unit, used_),
           pass_ == PassKind::kForward ? kWaitForOne : kTurn);
    expect(units_[unit].state != State::kReleased,
           fmt::format("unit {} is waited for, but was not asked for", unit),
           units_[unit].gathers > 0 ? kAskAgain : kWindow);
    expect_window(kAskFirst);
    units_[unit].state = State::kThere;
  }

  void release(std::size_t unit) {
    calls_.back() += fmt::format(" release({})", unit);
    if (!is_unit(unit)) return;
    expect(units_[unit].state == State::kThere,
           fmt::format("unit {} is released, but is not there", unit), kReleaseOnce);
    units_[unit].state = State::kReleased;
  }

  // The passes ------------------------------------------------------------------------------------

  void expect_window(const char* hint) {
    if (pass_ == PassKind::kRecomputation) return;  // another recomputation may come first
    for (const std::size_t unit : window()) {
      expect(units_[unit].state != State::kReleased,
             fmt::format("use {} of {} begins, and unit {} has not been asked for; needed are {}",
                         use_, 2 * case_.units, unit, fmt::join(window(), " ")),
             hint);
    }
  }

  void begin(PassKind pass, std::size_t unit) {
    if (!problem_.empty()) return;
    pass_ = pass;
    used_ = unit;
    use_ = pass == PassKind::kForward ? unit : 2 * case_.units - 1 - unit;
    last_asked_ = 0;
    calls_.push_back(fmt::format(
        "{}({}):", pass == PassKind::kBackward ? "before_backward" : "before_forward", unit));
    if (pass == PassKind::kBackward) {
      prefetch_.before_backward(unit);
    } else {
      prefetch_.before_forward(unit);
    }
    expect(units_[unit].state == State::kThere,
           fmt::format("a use of unit {} begins, and the unit is not there", unit), kNotThere);
    expect_window(kWindow);
  }

  void end_forward(PassKind pass, std::size_t unit) {
    if (!problem_.empty()) return;
    calls_.push_back(fmt::format("after_forward({}):", unit));
    prefetch_.after_forward(unit);
    const bool stays = pass == PassKind::kRecomputation || case_.reshard == Reshard::kAfterBackward;
    const bool there = units_[unit].state != State::kReleased;
    expect(!stays || there, fmt::format("unit {} is released after its forward pass", unit),
           pass == PassKind::kRecomputation ? kRecomputed : kStays);
    expect(stays || !there, fmt::format("unit {} is still there after its forward pass", unit),
           kReleaseEarly);
  }

  void run_backward(std::size_t unit) {
    begin(PassKind::kBackward, unit);
    if (!problem_.empty()) return;
    calls_.push_back(fmt::format("after_backward({}):", unit));
    prefetch_.after_backward(unit);
    expect(units_[unit].state == State::kReleased,
           fmt::format("unit {} is still there after its backward pass", unit), kReleaseInTheEnd);
  }

  void run_micro_batch() {
    for (std::size_t unit = 0; unit < case_.units; ++unit) {
      begin(PassKind::kForward, unit);
      end_forward(PassKind::kForward, unit);
    }
    for (std::size_t unit = case_.units; unit-- > 0;) {
      for (const Range& group : case_.recomputed) {
        if (group.end != unit + 1) continue;
        for (std::size_t again = group.begin; again < group.end; ++again) {
          begin(PassKind::kRecomputation, again);
          end_forward(PassKind::kRecomputation, again);
        }
      }
      run_backward(unit);
    }
    const std::size_t gathers = case_.reshard == Reshard::kAfterForward ? 2 : 1;
    for (std::size_t unit = 0; unit < case_.units; ++unit) {
      expect(units_[unit].gathers == gathers * (micro_batch_ + 1),
             fmt::format("unit {} was gathered {} times in {} micro-batches, expected {} in each",
                         unit, units_[unit].gathers, micro_batch_ + 1, gathers),
             kOnce);
      expect(units_[unit].state == State::kReleased,
             fmt::format("unit {} is there, or under way, when the micro-batch has ended", unit),
             kWindow);
    }
  }

  Case case_;
  std::vector<Unit> units_;
  std::size_t largest_group_ = 1;
  std::vector<std::string> calls_;
  std::string problem_;
  std::size_t micro_batch_ = 0;
  PassKind pass_ = PassKind::kForward;
  std::size_t used_ = 0;           // the unit of the use that begins
  std::size_t use_ = 0;            // which of the 2 U uses that is
  std::ptrdiff_t last_asked_ = 0;  // place in the window of what was asked for last
  Prefetch prefetch_;
};

constexpr Reshard kReshards[] = {Reshard::kAfterForward, Reshard::kAfterBackward};

class PrefetchTest : public ultra::test::RandomTest {
 protected:
  static void expect_passes(const Case& the_case) {
    const std::string problem = Trial(the_case).run();
    EXPECT_TRUE(problem.empty()) << problem;
  }

  Case draw(std::size_t largest_group) {
    Case drawn{.units = random.between(1, 12),
               .ahead = random.between(0, 7),
               .reshard = random.pick({Reshard::kAfterForward, Reshard::kAfterBackward}),
               .micro_batches = random.between(1, 4)};
    // The last unit, the head, runs backward right after its forward pass.
    for (std::size_t unit = 0; largest_group > 0 && unit + 1 < drawn.units;) {
      const std::size_t end = std::min(unit + random.between(1, largest_group), drawn.units - 1);
      if (random.between(0, 3) > 0) drawn.recomputed.push_back({unit, end});
      unit = end;
    }
    return drawn;
  }
};

TEST_F(PrefetchTest, WithoutLookingAheadUnitsComeOneByOne) {
  for (const Reshard reshard : kReshards) {
    for (std::size_t units = 1; units <= 5 && !HasFailure(); ++units) {
      expect_passes({.units = units, .ahead = 0, .reshard = reshard, .micro_batches = 1});
    }
  }
}

TEST_F(PrefetchTest, LooksAheadAlsoAroundTheTurn) {
  for (const Reshard reshard : kReshards) {
    for (std::size_t units = 1; units <= 6; ++units) {
      for (std::size_t ahead = 1; ahead <= 2 * units + 1 && !HasFailure(); ++ahead) {
        expect_passes({.units = units, .ahead = ahead, .reshard = reshard, .micro_batches = 1});
      }
    }
  }
}

TEST_F(PrefetchTest, EveryMicroBatchBeginsAgain) {
  for (int i = 0; i < 200 && !HasFailure(); ++i) expect_passes(draw(0));
}

TEST_F(PrefetchTest, AUnitThatIsRecomputedStaysForItsBackwardPass) {
  for (int i = 0; i < 200 && !HasFailure(); ++i) expect_passes(draw(1));
}

TEST_F(PrefetchTest, UnitsMayBeRecomputedTogether) {
  for (int i = 0; i < 200 && !HasFailure(); ++i) expect_passes(draw(4));
}

TEST_F(PrefetchTest, WorkedByHand) {
  Trial trial({.units = 3, .ahead = 1, .reshard = Reshard::kAfterForward, .micro_batches = 1});
  const std::string problem = trial.run();
  EXPECT_TRUE(problem.empty()) << problem;
  const std::vector<std::string> expected = {
      "before_forward(0): start_gather(0) start_gather(1) wait(0)",
      "after_forward(0): release(0)",
      "before_forward(1): start_gather(2) wait(1)",
      "after_forward(1): release(1)",
      "before_forward(2): wait(2)",
      "after_forward(2): release(2)",
      "before_backward(2): start_gather(2) start_gather(1) wait(2)",
      "after_backward(2): release(2)",
      "before_backward(1): start_gather(0) wait(1)",
      "after_backward(1): release(1)",
      "before_backward(0): wait(0)",
      "after_backward(0): release(0)",
  };
  EXPECT_EQ(trial.calls(), expected);
}

}  // namespace
}  // namespace ultra::zero
