#include "common/train/options/exclusion.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"

namespace ultra::train {
namespace {

TEST(Exclusions, TheFirstThatIsBrokenIsNamedWithItsReason) {
  const std::vector<Exclusion> rows = {
      {.first = "--a", .second = "--b", .reason = "kept."},
      {.first = "--c 2", .second = "--d", .reason = "two at once.", .broken = true},
      {.first = "--e", .second = "--f", .reason = "later.", .broken = true}};
  EXPECT_EQ(test::message_of<ConfigError>([&] { expect_kept(rows); }),
            "--c 2 does not go together with --d: two at once.");
}

TEST(Exclusions, WhatIsNotBrokenPasses) {
  EXPECT_NO_THROW(expect_kept({}));
  const std::vector<Exclusion> kept = {{.first = "--a", .second = "--b", .reason = "kept."}};
  EXPECT_NO_THROW(expect_kept(kept));
}

}  // namespace
}  // namespace ultra::train
