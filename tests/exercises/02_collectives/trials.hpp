#pragma once
/// @file
/// What the tests of this chapter's exercises share: trials of collectives, alone and on ranks.

#include <initializer_list>

#include "tests/support/contracts/collective_trial.hpp"
#include "tests/support/contracts/rank_trial.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {

using comm::Chunks;
using comm::Group;
using test::CollectiveTrial;
using test::TrialCase;

namespace test {

/// @brief The algorithm keeps the promise of `op` on so many ranks, where there is a root from the
/// middle one, for a random count.
inline void expect_on_ranks(Random& random, OpKind op, std::initializer_list<int> sizes,
                            const MakeRankSchedule& make) {
  const auto algorithms = only(op, make);
  for (const int size : sizes) {
    EXPECT_TRUE(holds_on_ranks(op, algorithms, size, random.between(0, 200),
                               op == OpKind::kBroadcast ? size / 2 : 0))
        << size << " ranks";
  }
}

}  // namespace test
}  // namespace ultra
