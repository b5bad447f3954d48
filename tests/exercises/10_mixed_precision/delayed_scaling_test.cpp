// Contract of exercise 10.7: histories of largest magnitudes.
#include "chapters/10_mixed_precision/delayed_scaling.hpp"

#include <deque>

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
      note_amax(history, amax);
      note_amax(history, amax / 2);
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

TEST_F(DelayedScaling, BeginsWithAScaleOfOne) {
  const std::vector<float> history(1 + random.between(1, 5), 0.0F);
  EXPECT_EQ(delayed_scale(history, Fp8::kE4m3, 0), 1.0F) << kStays;
}

TEST_F(DelayedScaling, NotesTheLargestOfAStep) {
  std::vector<float> history(4, 0.0F);
  for (const float amax : {2.0F, 5.0F, 3.0F}) note_amax(history, amax);
  EXPECT_EQ(history, (std::vector<float>{5.0F, 0.0F, 0.0F, 0.0F})) << kSeveral;
}

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

}  // namespace
}  // namespace ultra::mixed_precision
