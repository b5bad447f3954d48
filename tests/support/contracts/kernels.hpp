#pragma once
// What tests of kernels expect of a rung: right outputs, checked and fast, no fault, and
// what they read from its counters.

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "chapters/09_kernels/ladder.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/selection.hpp"
#include "common/base/errors.hpp"
#include "kernels/simt/error.hpp"
#include "tests/support/random.hpp"

namespace ultra::test {

using ladders::find_ladder;

// The rung of that name.
inline int find_rung(const ladders::Ladder& ladder, std::string_view name) {
  const auto found = std::ranges::find(ladder.rungs(), name, &ladders::RungInfo::name);
  return found == ladder.rungs().end() ? 0 : found->number;
}

// Sizes around the emulator's default: often ragged, sometimes 1.
inline ladders::Sizes random_sizes(const ladders::Ladder& ladder, Random& random) {
  ladders::Sizes sizes;
  for (const ladders::Dimension& dimension : ladder.info().dimensions) {
    const auto most = static_cast<std::size_t>(dimension.emulated) * 3 / 2;
    sizes.push_back(random.pick({0, 1, 2, 3, 4}) == 0 ? dimension.emulated
                                                      : static_cast<int>(random.between(1, most)));
  }
  return sizes;
}

// What a rung gives on one executor; `hint` is for a learner whose kernel is wrong.
inline ladders::Outcome expect_right(const ladders::Ladder& ladder, int rung,
                                     const ladders::RunRequest& request,
                                     const char* hint = "check the indices and the ragged edges") {
  SCOPED_TRACE(fmt::format("{} {}, sizes {}, {}", ladder.info().name, ladder.rung(rung).name,
                           fmt::join(request.sizes, "x"), simt::name_of(request.executor)));
  ladders::Outcome outcome;
  try {
    outcome = ladder.run(rung, request);
  } catch (const simt::SimtError& error) {
    ADD_FAILURE() << error.what();
    return outcome;
  }
  EXPECT_TRUE(outcome.verdict.is_right())
      << outcome.verdict.to_text() << ": " << outcome.verdict.worst()
      << " times what rounding allows. Hint: " << hint;
  return outcome;
}

// Expects a rung to be right in the checked and in the fast emulator: at the default sizes, and at
// `draws` random ones that it does not refuse. Ends with the first failure: the fast one checks nothing,
// and a kernel that leaves its buffers there would take the program, and the message, with it.
inline void expect_right_everywhere(const ladders::Ladder& ladder, int rung, Random& random,
                                    int draws) {
  ladders::Sizes sizes = ladder.default_sizes(simt::Executor::kChecked);
  ASSERT_EQ(ladder.refusal(rung, sizes, simt::Executor::kFast), "");
  for (int draw = 0; draw <= draws; ++draw) {
    if (ladder.refusal(rung, sizes, simt::Executor::kFast).empty()) {
      for (const simt::Executor executor : {simt::Executor::kChecked, simt::Executor::kFast}) {
        expect_right(ladder, rung,
                     {.sizes = sizes, .seed = random.between(1, 1U << 30), .executor = executor});
        if (::testing::Test::HasFailure()) {
          return;
        }
      }
    }
    sizes = random_sizes(ladder, random);
  }
}

// What a rung counts on sizes.
inline simt::Report counted(const ladders::Ladder& ladder, int rung, const ladders::Sizes& sizes) {
  return expect_right(ladder, rung, {.sizes = sizes}).report;
}

}  // namespace ultra::test
