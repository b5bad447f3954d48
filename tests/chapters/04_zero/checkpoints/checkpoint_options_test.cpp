#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "tests/support/programs/command_line.hpp"

namespace ultra::zero {
namespace {

using Words = ultra::test::Words;

CheckpointOptions valid(const std::string& line) {
  return ultra::test::valid<CheckpointOptions>(line);
}

TEST(CheckpointOptions, ByDefaultNothingIsSavedOrLoaded) {
  EXPECT_FALSE(valid("").used());
  EXPECT_TRUE(valid("").config().empty());
}

TEST(CheckpointOptions, TakesItsFlags) {
  const CheckpointOptions options = valid("--checkpoint a --save-every 10 --keep 3 --resume b");
  EXPECT_TRUE(options.used());
  EXPECT_EQ(options.folder, "a");
  EXPECT_EQ(options.save_every, 10U);
  EXPECT_EQ(options.keep, 3U);
  EXPECT_EQ(options.resume, "b");
  const train::ExtraConfig config = options.config();
  ASSERT_EQ(config.size(), 4U);
  EXPECT_EQ(std::get<std::string>(config[0].second), "a");
  EXPECT_EQ(std::get<std::size_t>(config[1].second), 10U);
  EXPECT_EQ(std::get<std::size_t>(config[2].second), 3U);
  EXPECT_EQ(std::get<std::string>(config[3].second), "b");
}

TEST(CheckpointOptions, SavingAndLoadingAreIndependent) {
  for (const char* line : {"--checkpoint a", "--resume a", "--checkpoint a --keep 1"}) {
    EXPECT_TRUE(valid(line).used()) << line;
  }
}

TEST(CheckpointOptions, WhatCannotWorkIsRefused) {
  for (const std::string flag : {"--save-every", "--keep"}) {
    const Words alone = {flag + " has no meaning without --checkpoint DIR"};
    ultra::test::expect_refused<CheckpointOptions>(
        {{flag + " 0", alone},
         {flag + " 5", alone},
         {flag + " 0 --resume a", alone},
         {flag + " 5 --resume a", alone},
         {"--checkpoint a " + flag + " 0", {flag, "at least 1, found 0"}}});
    for (const char* value : {"-1", "1.5", "x", "", "1e3", "99999999999999999999"}) {
      const Words words = {"--checkpoint", "a", flag, value};
      EXPECT_THROW(static_cast<void>(ultra::test::parsed<CheckpointOptions>(words)), ConfigError)
          << flag << value;
    }
  }
}

}  // namespace
}  // namespace ultra::zero
