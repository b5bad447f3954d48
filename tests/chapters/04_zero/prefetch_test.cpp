// What Prefetch refuses: passes that run in another order than the uses that it was given.
//
// Covers: chapters/04_zero/prefetch.hpp

#include "chapters/04_zero/prefetch.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

/// Unit 0 forward, unit 1 forward, and backward.
Prefetch prefetch() {
  const auto nothing = [](std::size_t) {};
  return {{{0, UseKind::kForward},
           {1, UseKind::kForward},
           {1, UseKind::kBackward},
           {0, UseKind::kBackward}},
          1,
          Reshard::kAfterForward,
          {.start_gather = [](const UnitUse&) {}, .wait = nothing, .release = nothing}};
}

TEST(Prefetch, AnotherOrderThanThatOfTheUsesIsAnError) {
  Prefetch units = prefetch();
  EXPECT_THAT(message_of<InternalError>([&] { units.begin(1); }),
              HasSubstr("unit 1 is used where the schedule has use 0 of 4"));
  units.begin(0);
  EXPECT_THROW(units.end(1), InternalError);
  units.end(0);
  EXPECT_THROW(units.end(0), InternalError) << "it is over";
  EXPECT_THAT(message_of<InternalError>([&] { units.begin(0); }), HasSubstr("use 1 of 4"));
}

TEST(Prefetch, TheUsesOfAStepComeAgainInTheNext) {
  Prefetch units = prefetch();
  for (int step = 0; step < 2; ++step) {
    for (const std::size_t unit : {0U, 1U, 1U, 0U}) {
      units.begin(unit);
      units.end(unit);
    }
  }
  EXPECT_THROW(units.begin(1), InternalError) << "the third step begins with unit 0";
}

TEST(Prefetch, AStepWithoutUsesHasNone) {
  const auto nothing = [](std::size_t) {};
  Prefetch units({}, 1, Reshard::kAfterForward,
                 {.start_gather = [](const UnitUse&) {}, .wait = nothing, .release = nothing});
  EXPECT_THROW(units.begin(0), InternalError);
}

}  // namespace
}  // namespace ultra::zero
