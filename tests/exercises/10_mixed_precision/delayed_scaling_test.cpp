// Contract of exercise 10.7: histories of largest magnitudes.
#include "chapters/10_mixed_precision/delayed_scaling.hpp"

#include <deque>

#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr const char* kSeveral =
    "Hint: a step has many micro-batches: place 0 keeps the largest of all that were noted.";
constexpr const char* kStays =
    "Hint: what was written with a scale is read with it, so the maximum of the step under way "
    "must not change the scale of that step.";
constexpr const char* kLargest =
    "Hint: the scale must fit the largest of all steps of the history, not only the latest.";
constexpr const char* kForgets =
    "Hint: at the end of a step every maximum moves one place back; the oldest is forgotten, and "
    "place 0 is empty for the next step.";
constexpr const char* kMargin =
    "Hint: power_of_two_scale() knows what a margin and the format do to a scale.";

constexpr const char* kAgree =
    "Hint: every rank has noted maxima of its own: the scales would differ, and so would the grids "
    "of one weight. Take the largest of all ranks.";
constexpr const char* kOnce =
    "Hint: the maxima of all histories travel together, in one all-reduce; on one rank none is "
    "needed.";
constexpr const char* kOverflow =
    "Hint: an infinite maximum would make the scale 0 for as long as the history remembers it: the "
    "maximum of the step before stands in.";

class DelayedScaling : public ultra::test::RandomTest {
 protected:
  float any() { return static_cast<float>(std::exp2(random.uniform(-20.0, 20.0))); }

  /// Thirty steps, beside a queue of the last ones.
  void follow(std::size_t length) {
    std::vector<float> history(1 + length, 0.0F);
    std::deque<float> window;
    for (int step = 0; step < 30; ++step) {
      const Fp8 format = random.pick({Fp8::kE4m3, Fp8::kE5m2});
      const int margin = static_cast<int>(random.between(0, 3));
      const float largest = window.empty() ? 0.0F : std::ranges::max(window);
      EXPECT_EQ(delayed_scale(history, format, 0), power_of_two_scale(largest, format)) << kLargest;
      EXPECT_EQ(delayed_scale(history, format, margin), power_of_two_scale(largest, format, margin))
          << kMargin;
      const float amax = any();
      for (const float noted : {amax / 4, amax, amax / 2}) note_amax(history, noted);
      EXPECT_EQ(history.front(), amax) << kSeveral;
      end_amax_step(history);
      window.push_front(amax);
      if (window.size() > length) window.pop_back();
      ASSERT_EQ(history.front(), 0.0F) << kForgets;
      ASSERT_TRUE(std::ranges::equal(window, std::span(history).subspan(1, window.size())))
          << kForgets;
    }
  }
};

TEST_F(DelayedScaling, TheScaleStaysWithinAStep) {
  std::vector<float> history = {0.0F, 2.0F, 1.0F};
  const float before = delayed_scale(history, Fp8::kE4m3, 0);
  EXPECT_EQ(before, 128.0F) << kLargest;  // 2 * 128 = 256 <= 448 < 512
  note_amax(history, 100.0F);
  EXPECT_EQ(delayed_scale(history, Fp8::kE4m3, 0), before) << kStays;
  end_amax_step(history);
  EXPECT_EQ(delayed_scale(history, Fp8::kE4m3, 0), 4.0F) << kForgets;
}

TEST_F(DelayedScaling, AWindowOverTheSteps) {
  for (const std::size_t length : {1U, 2U, 6U}) follow(length);
}

/// What each rank has in its histories of three steps.
using Histories = std::vector<std::vector<float>>;

std::vector<std::span<float>> spans_of(Histories& histories) {
  return {histories.begin(), histories.end()};
}

TEST_F(DelayedScaling, RanksEndAStepWithTheLargestOfAll) {
  for (const int ranks : {1, 2, 3, 5}) {
    std::vector<Histories> drawn(static_cast<std::size_t>(ranks));
    const std::size_t tensors = random.between(1, 6);
    std::vector<std::vector<float>> ended(tensors);  // the same on every rank
    for (auto& one : ended) one = {any(), any(), any()};
    std::vector<float> largest(tensors, 0.0F);
    for (Histories& own : drawn) {
      for (std::size_t t = 0; t < tensors; ++t) {
        own.push_back({any(), ended[t][0], ended[t][1], ended[t][2]});
        largest[t] = std::max(largest[t], own[t][0]);
      }
    }
    ultra::test::on_ranks(ranks, fmt::format("{} tensors", tensors), [&](Communicator& world) {
      Histories own = drawn[static_cast<std::size_t>(world.rank())];
      const CommStats before = world.stats();
      end_amax_steps(spans_of(own), world, Device::cpu());
      const CommStats after = world.stats();
      EXPECT_EQ(after[OpKind::kAllReduce].operations - before[OpKind::kAllReduce].operations,
                ranks > 1 ? 1U : 0U)
          << kOnce;
      for (std::size_t t = 0; t < tensors; ++t) {
        EXPECT_EQ(own[t], (std::vector<float>{0.0F, largest[t], ended[t][0], ended[t][1]}))
            << kAgree << "\n"
            << kForgets;
      }
    });
  }
}

TEST_F(DelayedScaling, AnOverflowOfOneRankIsForgottenOnAll) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const int ranks = static_cast<int>(random.between(1, 4));
  const int who = static_cast<int>(random.between(0, static_cast<std::size_t>(ranks) - 1));
  ultra::test::on_ranks(ranks, fmt::format("rank {} overflows", who), [&](Communicator& world) {
    Histories own = {{world.rank() == who ? kInfinity : 2.0F, 8.0F, 4.0F},
                     {world.rank() == who ? 3.0F : 2.0F, 1.0F, 1.0F}};
    end_amax_steps(spans_of(own), world, Device::cpu());
    EXPECT_EQ(own[0], (std::vector<float>{0.0F, 8.0F, 8.0F})) << kOverflow;
    EXPECT_EQ(own[1], (std::vector<float>{0.0F, 3.0F, 1.0F})) << kAgree;
  });
}

}  // namespace
}  // namespace ultra::mixed_precision
