// Contract of exercise 04.5: what Prefetch calls along the uses of some steps, against what follows
// from a list of the units that are there.
#include "chapters/04_zero/prefetch.hpp"

#include <fmt/ranges.h>

#include <set>

#include "tests/support/toolbox.hpp"
#include "tests/support/training/schedules.hpp"

namespace ultra::zero {
namespace {

/// One line for each gather() and free(), with the actions that it calls.
using Lines = std::vector<std::string>;

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
  /// The uses whose units have been asked for when a use begins; the backward pass of a unit that
  /// was just computed again does not count.
  [[nodiscard]] std::vector<std::size_t> window(std::size_t use) const {
    std::vector<std::size_t> all = {use};
    for (std::size_t next = use + 1; next < uses.size() && all.size() <= ahead; ++next) {
      const bool again = uses[next].kind == UseKind::kBackward &&
                         uses[next - 1] == UnitUse{uses[next].unit, UseKind::kRecomputation};
      if (!again) all.push_back(next);
    }
    return all;
  }
  /// Why the unit of a use that is over stays; nullptr: it is released.
  [[nodiscard]] const char* why_it_stays(std::size_t use) const {
    const auto [unit, kind] = uses[use];
    if (kind == UseKind::kRecomputation) {
      return "after a recomputation the unit's backward pass comes next, so it stays.";
    }
    if (use + 1 < uses.size() && uses[use + 1] == UnitUse{unit, UseKind::kBackward}) {
      return "at the forward-backward boundary the last unit is the first one again: when the "
             "next use is the unit's backward pass, it stays.";
    }
    const auto so_far = std::span(uses).first(use + 1);
    const auto under_way = std::ranges::count(so_far, UnitUse{unit, UseKind::kForward}) -
                           std::ranges::count(so_far, UnitUse{unit, UseKind::kBackward});
    if (reshard == Reshard::kAfterForward || under_way == 0) return nullptr;
    return "with Reshard::kAfterBackward a unit stays from its forward pass to its backward pass; "
           "when another micro-batch has used the unit forward too, until the last of them.";
  }
};

Lines expected_calls(const Case& c) {
  Lines lines;
  std::set<std::size_t> there;  // or under way
  for (std::size_t use = 0; use < c.uses.size(); ++use) {
    const std::size_t unit = c.uses[use].unit;
    std::string& gather = lines.emplace_back(fmt::format("gather({}):", unit));
    for (const std::size_t needed : c.window(use)) {
      const UnitUse& next = c.uses[needed];
      if (there.insert(next.unit).second) gather += fmt::format(" start_gather({})", text(next));
    }
    gather += fmt::format(" wait({})", unit);
    std::string& free = lines.emplace_back(fmt::format("free({}):", unit));
    if (c.why_it_stays(use) != nullptr) continue;
    free += fmt::format(" release({})", unit);
    there.erase(unit);
  }
  return lines;
}

const char* hint_for_gather(const Case& c, std::size_t use, const Lines& found,
                            const Lines& expected) {
  constexpr const char* kWindow =
      "when a use begins, its own unit has been asked for, and those of the next `ahead` uses.";
  const std::vector<std::size_t> window = c.window(use);
  for (const std::string& call : found) {
    const bool waits = call.starts_with("wait");
    if (waits && call != expected.back()) {
      return "only the unit of this use is waited for: the others have time until their own use.";
    }
    if (waits && &call != &found.back()) {
      return "ask for all units of the window, then wait: so they travel while the rank waits.";
    }
    if (std::ranges::count(expected, call) == std::ranges::count(found, call)) continue;
    if (std::ranges::any_of(window,
                            [&](auto w) { return call.ends_with(text(c.uses[w]) + ")"); })) {
      return "a unit that is there, or under way, is not asked for again, its memory is taken: "
             "ask_for() looks at that.";
    }
    return window.back() + 1 < c.uses.size()
               ? kWindow
               : "there is no use after the last one of the step: the weights of the next step are "
                 "not made yet.";
  }
  for (const std::string& call : expected) {
    if (std::ranges::count(found, call) > 0) continue;
    if (call.starts_with("wait")) return "a unit is there when its use begins: wait for it.";
    return window.back() == use + window.size() - 1
               ? kWindow
               : "the backward pass of a unit that was just computed again does not count: look "
                 "one use further.";
  }
  return "units are asked for in the order of their uses: what is needed first travels first.";
}

const char* hint_for_free(const Case& c, std::size_t use) {
  if (const char* const stays = c.why_it_stays(use); stays != nullptr) return stays;
  return c.uses[use].kind == UseKind::kForward
             ? "with Reshard::kAfterForward a unit is released as soon as it has run forward, "
               "unless its backward pass is the next use."
             : "when no micro-batch's backward pass is to come nobody needs the unit: release it, "
               "whatever `reshard` says.";
}

/// Holds the calls of three steps, one by one, against the expected ones.
void expect_calls(const Case& c) {
  const Lines expected = expected_calls(c);
  Lines found;
  const auto note = [&found](const char* action, const auto& of) {
    found.back() += fmt::format(" {}({})", action, of);
  };
  Prefetch prefetch(c.ahead,
                    {.start_gather = [&](const UnitUse& use) { note("start_gather", text(use)); },
                     .wait = [&](std::size_t unit) { note("wait", unit); },
                     .release = [&](std::size_t unit) { note("release", unit); }});
  prefetch.follow(c.uses, c.reshard);
  for (int step = 0; step < 3; ++step) {
    found.clear();
    for (const UnitUse& use : c.uses) {
      found.push_back(fmt::format("gather({}):", use.unit));
      prefetch.gather(use.unit);
      found.push_back(fmt::format("free({}):", use.unit));
      prefetch.free(use.unit);
    }
    const auto place = std::ranges::mismatch(found, expected).in1 - found.begin();
    const auto line = static_cast<std::size_t>(place);
    if (line == expected.size()) continue;
    const std::size_t use = line / 2;
    const char* const hint = line % 2 == 0
                                 ? hint_for_gather(c, use, ultra::test::words_of(found[line]),
                                                   ultra::test::words_of(expected[line]))
                                 : hint_for_free(c, use);
    const auto before = std::span(found).first(line);
    FAIL() << fmt::format("{}\nat {}:  {}\nexpected: {}\nHint: {}\nThe calls before:\n  {}",
                          c.str(), text(c.uses[use]), found[line], expected[line], hint,
                          fmt::join(before.last(std::min<std::size_t>(line, 10)), "\n  "));
  }
}

class PrefetchTest : public ultra::test::RandomTest {};

TEST_F(PrefetchTest, FollowsAnySchedule) {
  for (const char* schedule :
       {"F0 BW0", "F0 BW0 F1 BW1 F2 BW2", "F0 F1 BW0 BW1", "F0 F1 BW1 BW0", "F0 F1 BW0 F2 BW1 BW2",
        "F0 F1 F2 BW1 F3 BW3 BW0 BW2", "F0 F1 BW0 BW1 F2 F3 F4 BW2 BW3 BW4"}) {
    for (int i = 0; i < 100 && !HasFailure(); ++i) {
      const std::vector<ChunkUnits> chunks = {ChunkUnits::whole(random.between(2, 9))};
      const std::size_t recompute_every = random.between(0, 4);
      expect_calls({.uses = unit_uses(ultra::test::schedule_of(schedule), chunks, recompute_every),
                    .ahead = random.pick<std::size_t>({0, 1, 2, 3, 5, 7, 19}),
                    .reshard = random.pick({Reshard::kAfterForward, Reshard::kAfterBackward})});
    }
  }
}

TEST_F(PrefetchTest, WorkedByHand) {
  const std::vector<ChunkUnits> chunks = {ChunkUnits::whole(3)};
  const Case by_hand{.uses = unit_uses(ultra::test::schedule_of("F0 BW0"), chunks, 0), .ahead = 1};
  const Lines expected = {"gather(0): start_gather(F0) start_gather(F1) wait(0)",
                          "free(0): release(0)",
                          "gather(1): start_gather(F2) wait(1)",
                          "free(1): release(1)",
                          "gather(2): wait(2)",
                          "free(2):",
                          "gather(2): start_gather(B1) wait(2)",
                          "free(2): release(2)",
                          "gather(1): start_gather(B0) wait(1)",
                          "free(1): release(1)",
                          "gather(0): wait(0)",
                          "free(0): release(0)"};
  expect_calls(by_hand);
  EXPECT_EQ(expected_calls(by_hand), expected);
}

}  // namespace
}  // namespace ultra::zero
