// Covers: common/train/options/cli_fwd.hpp
#include "common/train/options/flags.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/support/command_line.hpp"

namespace ultra::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A flag of each kind.
struct AllKinds {
  std::size_t count = 4;
  std::size_t quiet_count = 7;
  double number = 0.5;
  std::string text = "words";
  std::optional<std::size_t> maybe_count;
  std::optional<double> maybe_number;
  std::optional<std::string> maybe_text;
  std::vector<std::string> list;
  std::string state = "on";
  std::string read;
  bool set = false;
  bool cleared = true;
  bool hidden = false;
  int times_given = 0;

  void add_to(CLI::App& app) {
    const Flags flags(app, "Kinds");
    flags.add("--count", count, "a count");
    flags.add("--quiet-count", quiet_count, "a count [many]", ShowDefault::kNo);
    flags.add("--number", number, "a number");
    flags.add("--text", text, "a text");
    flags.add("--maybe-count", maybe_count, "a count or none");
    flags.add("--maybe-number", maybe_number, "a number or none");
    flags.add("--maybe-text", maybe_text, "a text or none");
    flags.add("--list", list, "texts");
    flags.add_one_of("--state", state, {"on", "off"}, "a state");
    flags.add_parsed(
        "--read",
        [this](const std::string& word) {
          if (word == "bad") throw ConfigError("--read is bad");
          read = "<" + word + ">";
        },
        "a word", "none");
    flags.add_switch("--set", set, "sets");
    flags.add_switch("!--clear", cleared, "clears");
    Flags(app, "").add_switch("--hidden", hidden, "is not shown");
    when_given(app, "--count", [this] { ++times_given; });
  }
};

AllKinds parse(const std::string& line) {
  AllKinds kinds;
  test::parse_into(test::words_of(line), kinds);
  return kinds;
}

TEST(Flags, EachKindReachesItsValue) {
  const AllKinds kinds = parse(
      "--count 18446744073709551615 --quiet-count 0 --number -2.5 --text other --maybe-count 3 "
      "--maybe-number 1.5 --maybe-text here --list a,b,c --state off --read it --set --clear "
      "--hidden");
  EXPECT_EQ(kinds.count, 18446744073709551615U);
  EXPECT_EQ(kinds.quiet_count, 0U);
  EXPECT_EQ(kinds.number, -2.5);
  EXPECT_EQ(kinds.text, "other");
  EXPECT_EQ(kinds.maybe_count, 3U);
  EXPECT_EQ(kinds.maybe_number, 1.5);
  EXPECT_EQ(kinds.maybe_text, "here");
  EXPECT_THAT(kinds.list, ElementsAre("a", "b", "c"));
  EXPECT_EQ(kinds.state, "off");
  EXPECT_EQ(kinds.read, "<it>");
  EXPECT_TRUE(kinds.set);
  EXPECT_FALSE(kinds.cleared);
  EXPECT_TRUE(kinds.hidden);
  EXPECT_EQ(kinds.times_given, 1);
}

TEST(Flags, WhatIsLeftOutStays) {
  const AllKinds kinds = parse("");
  EXPECT_EQ(kinds.count, 4U);
  EXPECT_EQ(kinds.text, "words");
  EXPECT_EQ(kinds.maybe_count, std::nullopt);
  EXPECT_EQ(kinds.maybe_number, std::nullopt);
  EXPECT_EQ(kinds.maybe_text, std::nullopt);
  EXPECT_THAT(kinds.list, ElementsAre());
  EXPECT_EQ(kinds.read, "");
  EXPECT_FALSE(kinds.set);
  EXPECT_TRUE(kinds.cleared);
  EXPECT_EQ(kinds.times_given, 0);
}

TEST(Flags, WhatCannotBeReadIsRefused) {
  const auto read = [](const test::Words& words) {
    AllKinds kinds;
    test::parse_into(words, kinds);
  };
  test::expect_refused<CLI::ParseError>(
      read,
      {{"--number high", {"--number"}}, {"--state maybe", {"--state: maybe not in {on,off}"}}});
  for (const std::string flag : {"--count", "--quiet-count", "--maybe-count"}) {
    EXPECT_EQ(test::message_of<CLI::ParseError>([&] { parse(flag + " -3"); }),
              flag + ": '-3' is not a whole number from 0 to 2^64 - 1");
  }
  EXPECT_EQ(test::message_of<ConfigError>([] { parse("--read bad"); }), "--read is bad");
}

TEST(Flags, HelpShowsDefaultsUnderTheGroup) {
  AllKinds kinds;
  const std::string help = test::help_of([&](CLI::App& app) { kinds.add_to(app); });
  test::expect_parts(help,
                     {"Kinds:", "--count UINT=4", "--quiet-count UINT  ", "--number FLOAT=0.5",
                      "--text TEXT=words", "--maybe-count UINT  ", "--list TEXT ...  ",
                      "--state TEXT:{on,off}=on", "--read TEXT=none", "a count [many]"});
  EXPECT_THAT(help, Not(HasSubstr("--hidden")));
}

}  // namespace
}  // namespace ultra::train
