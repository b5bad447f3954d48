#include "chapters/04_zero/checkpoints/checkpoint_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::zero {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::ultra::test::message_of;
using Words = std::vector<std::string>;

/// By reference: the flags write into the object that has added them.
void parse(CheckpointOptions& options, const Words& words) {
  ultra::test::parse_into(words, options);
}

std::string refused(const Words& words) {
  CheckpointOptions options;
  parse(options, words);
  return message_of<ConfigError>([&] { options.validate(); });
}

TEST(CheckpointOptions, ByDefaultNothingIsSavedOrLoaded) {
  CheckpointOptions options;
  parse(options, {});
  EXPECT_NO_THROW(options.validate());
  EXPECT_FALSE(options.used());
  EXPECT_THAT(options.config(), IsEmpty());
}

TEST(CheckpointOptions, TakesItsFlags) {
  CheckpointOptions options;
  parse(options, {"--checkpoint", "a", "--save-every", "10", "--keep", "3", "--resume", "b"});
  EXPECT_NO_THROW(options.validate());
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
  for (const Words& words : {Words{"--checkpoint", "a"}, Words{"--resume", "a"},
                             Words{"--checkpoint", "a", "--keep", "1"}}) {
    CheckpointOptions options;
    parse(options, words);
    EXPECT_NO_THROW(options.validate());
    EXPECT_TRUE(options.used());
  }
}

TEST(CheckpointOptions, FlagsWithoutAFolderAreRefused) {
  for (const char* flag : {"--save-every", "--keep"}) {
    for (const char* value : {"0", "5"}) {
      const std::string message = std::string(flag) + " has no meaning without --checkpoint DIR";
      EXPECT_THAT(refused({flag, value}), HasSubstr(message));
      EXPECT_THAT(refused({flag, value, "--resume", "a"}), HasSubstr(message));
    }
  }
}

TEST(CheckpointOptions, ZeroIsRefused) {
  for (const char* flag : {"--save-every", "--keep"}) {
    EXPECT_THAT(refused({"--checkpoint", "a", flag, "0"}),
                AllOf(HasSubstr(flag), HasSubstr("at least 1, found 0")));
  }
}

TEST(CheckpointOptions, OtherThanWholeNumbersAreRefused) {
  for (const char* flag : {"--save-every", "--keep"}) {
    for (const char* value : {"-1", "1.5", "x", "", "1e3", "99999999999999999999"}) {
      CheckpointOptions options;
      EXPECT_THROW(parse(options, {"--checkpoint", "a", flag, value}), CLI::ParseError)
          << flag << " " << value;
    }
  }
}

}  // namespace
}  // namespace ultra::zero
