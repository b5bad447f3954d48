// Covers: common/train/options/cli_fwd.hpp
// Covers: common/train/options/choice_option.hpp, common/train/options/conflict.hpp
// Covers: common/train/options/question_flags.hpp

#include "common/train/options/flags.hpp"

#include <CLI/CLI.hpp>

#include "common/train/cli/technique.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/conflict.hpp"
#include "common/train/options/question_flags.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/programs/parse_options.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::train {
namespace {

/// A flag of each kind.
struct AllKinds {
  std::size_t count = 4;
  std::size_t quiet_count = 7;
  double number = 0.5;
  std::size_t few = 3;
  std::size_t some = 3;
  std::optional<double> rate;
  double positive = 1;
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
    flags.add("--quiet-count", quiet_count, "a count [many]", {}, ShowDefault::kNo);
    flags.add("--number", number, "a number");
    flags.add("--few", few, "a count", {2, 9});
    flags.add("--some", some, "a count", {.least = 1});
    flags.add("--rate", rate, "a number", {0.0, 1e6});
    flags.add("--positive", positive, "a number", {.least = 0.5});
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
          if (word == "odd") throw ConfigError("'odd' is odd");
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

/// The message that refuses a flag's value.
std::string refusal(const std::string& flag, const std::string& value) {
  AllKinds kinds;
  return test::message_of<ConfigError>([&] { test::parse_into({flag, value}, kinds); });
}

TEST(Flags, WhatCannotBeReadIsRefused) {
  const std::string any_count = "It must be a whole number from 0 to 2^64 - 1.";
  for (const std::string flag : {"--count", "--quiet-count", "--maybe-count"}) {
    EXPECT_EQ(refusal(flag, "-3"), flag + " is -3. " + any_count);
    EXPECT_EQ(refusal(flag, "1.5"), flag + " is 1.5. " + any_count);
    EXPECT_EQ(refusal(flag, "18446744073709551616"),
              flag + " is 18446744073709551616. " + any_count);
    for (const char* text : {"many", "0x10", " 1", "1 ", "+1", "1,000"}) {
      EXPECT_EQ(refusal(flag, text), flag + " is '" + text + "'. " + any_count);
    }
  }
  for (const std::string flag : {"--number", "--maybe-number"}) {
    for (const char* text : {"high", "0x10", "0x1p4", " 1", "1 ", "+1", "1e999", "1,5"}) {
      EXPECT_EQ(refusal(flag, text), flag + " is '" + text + "'. It must be a number.");
    }
    for (const char* text : {"nan", "inf", "-inf"}) {
      EXPECT_EQ(refusal(flag, text), flag + " is " + text + ". It must be a number.");
    }
  }
  EXPECT_EQ(refusal("--state", "maybe"), "--state is 'maybe'. It must be on or off.");
  EXPECT_EQ(refusal("--read", "bad"), "--read is bad");
  EXPECT_EQ(refusal("--read", "odd"), "--read: 'odd' is odd") << "it begins with the flag";
}

TEST(Flags, ANumberOutsideItsLimitsIsRefusedWithThem) {
  for (const char* text : {"1", "10"}) {
    EXPECT_EQ(refusal("--few", text),
              std::string("--few is ") + text + ". It must be a whole number from 2 to 9.");
  }
  EXPECT_EQ(refusal("--some", "0"), "--some is 0. It must be a whole number of at least 1.");
  EXPECT_EQ(refusal("--rate", "-1"), "--rate is -1. It must be a number from 0 to 1000000.");
  EXPECT_EQ(refusal("--rate", "nan"), "--rate is nan. It must be a number from 0 to 1000000.");
  EXPECT_EQ(refusal("--positive", "0.4"),
            "--positive is 0.4. It must be a number of at least 0.5.");
  const AllKinds kinds = parse("--few 9 --some 18446744073709551615 --rate 0 --positive 0.5");
  EXPECT_EQ(kinds.few, 9U);
  EXPECT_EQ(kinds.rate, 0.0);
  EXPECT_EQ(kinds.positive, 0.5);
  EXPECT_EQ(parse("--few 2 --rate 1e6").few, 2U);
}

// What a variable of the shell that is not set makes of --flag "$VARIABLE".
TEST(Flags, NoFlagTakesAnEmptyValue) {
  for (const std::string flag :
       {"--count", "--quiet-count", "--number", "--few", "--rate", "--text", "--maybe-count",
        "--maybe-number", "--maybe-text", "--list", "--state", "--read"}) {
    test::expect_parts(refusal(flag, ""), {flag + " is empty", "Give it a value"});
  }
  EXPECT_THAT(refusal("--list", "a,,b"), HasSubstr("--list is 'a,,b', with an empty name in it"));
}

TEST(Flags, MessagesShowTheBeginningOfALongValueAndNoControlCharacters) {
  for (const std::string flag : {"--count", "--number", "--text", "--list", "--state", "--read"}) {
    const std::string longest = refusal(flag, std::string(1 << 20, '7'));
    EXPECT_THAT(longest, HasSubstr(flag));
    EXPECT_LT(longest.size(), 250U);
    test::expect_parts(refusal(flag, "\x1b[31mred"), {flag, R"('\x1b[31mred')"});
  }
}

TEST(UnderFlag, MessagesBeginWithTheFlag) {
  const auto message = [](const char* elsewhere, const char* thrown) {
    return test::message_of<ConfigError>(
        [&] { under_flag("--here", elsewhere, [&] { throw ConfigError(thrown); }); });
  };
  EXPECT_EQ(message("", "x is no y"), "--here: x is no y");
  EXPECT_EQ(message("--there", "--there is no y"), "--here is no y");
  EXPECT_EQ(message("--there", "--there: x is no y"), "--here: x is no y");
  EXPECT_EQ(message("--there", "--here is no y"), "--here is no y");
  EXPECT_EQ(under_flag("--here", "", [] { return 3; }), 3);
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

// What one flag, or several, may be ---------------------------------------------------------------

enum class Fruit { kApple, kPear, kPlum };

const std::vector<Choice<Fruit>> kFruits = {
    {"apple", Fruit::kApple}, {"pear", Fruit::kPear}, {"plum", Fruit::kPlum}};

struct FruitOptions {
  Fruit fruit = Fruit::kPear;
  void add_to(CLI::App& app) { add_choice(app, "--fruit", fruit, kFruits, "Food", "what to eat"); }
};

TEST(ChoiceOption, WithoutTheFlagTheValueStaysAndHelpShowsItsWord) {
  EXPECT_EQ(test::parsed<FruitOptions>({}).fruit, Fruit::kPear);
  FruitOptions options;
  EXPECT_THAT(test::help_of([&](CLI::App& app) { options.add_to(app); }),
              ::testing::HasSubstr("--fruit TEXT=pear"));
}

TEST(ChoiceOption, AnotherWordIsRefusedWithAllThatThereAre) {
  EXPECT_EQ(test::message_of<ConfigError>(
                [] { static_cast<void>(parse_choice("--fruit", "kiwi", kFruits)); }),
            "--fruit is 'kiwi'. It must be apple, pear or plum.");
  const std::vector<Choice<bool>> two = {{"on", true}, {"off", false}};
  EXPECT_EQ(
      test::message_of<ConfigError>([&] { static_cast<void>(parse_choice("--light", "", two)); }),
      "--light is ''. It must be on or off.");
}

TEST(Conflicts, TheFirstThatIsBrokenIsNamedWithItsReason) {
  const std::vector<Conflict> rows = {
      {.first = "--a", .second = "--b", .reason = "kept."},
      {.first = "--c 2", .second = "--d", .reason = "two at once.", .broken = true},
      {.first = "--e", .second = "--f", .reason = "later.", .broken = true}};
  EXPECT_EQ(test::message_of<ConfigError>([&] { reject_conflicts(rows); }),
            "--c 2 does not go together with --d: two at once.");
}

struct Asked {
  static constexpr const char* kFlag = "--ask";
  std::string ask;
  std::size_t size = 4;
  bool json = false;

  void add_to(CLI::App& app);
  void validate() const;
  [[nodiscard]] bool predicts() const { return !ask.empty(); }
  [[nodiscard]] std::string answer(const nn::ModelConfig& model) const {
    return ask + " of " + std::to_string(model.num_layers);
  }
};

constexpr auto kEachFlag = [](const auto& visit) {
  visit("--ask", &Asked::ask, "what is asked");
  visit("--ask-size", &Asked::size, "how much", Counts{1, 8});
  visit("--ask-json", &Asked::json, "as JSON");
};

void Asked::add_to(CLI::App& app) { add_flags(app, "Question", *this, kEachFlag); }

void Asked::validate() const {
  if (!predicts()) expect_defaults(*this, kEachFlag, "--ask WHAT");
}

Asked asked(const std::string& line) {
  auto options = test::parsed<Asked>(test::words_of(line));
  options.validate();
  return options;
}

std::string refusal(const std::string& line) {
  return test::message_of<ConfigError>([&] { static_cast<void>(asked(line)); });
}

TEST(QuestionFlags, SetMembersOfEachKind) {
  const Asked options = asked("--ask size --ask-size 7 --ask-json");
  EXPECT_EQ(options.ask, "size");
  EXPECT_EQ(options.size, 7U);
  EXPECT_TRUE(options.json);
  EXPECT_THAT(refusal("--ask size --ask-size 9"), HasSubstr("--ask-size is 9"));
}

TEST(QuestionFlags, HaveNoMeaningWithoutTheirQuestion) {
  EXPECT_EQ(refusal("--ask-size 7"), "--ask-size needs --ask WHAT.");
  EXPECT_EQ(refusal("--ask-json"), "--ask-json needs --ask WHAT.");
  EXPECT_NO_THROW(static_cast<void>(asked("")));
}

TEST(QuestionFlags, ListsOfNumbersAreReadOrRefused) {
  const auto read = [](const std::string& text) { return numbers_of<int>("--dp", text, "1,2,4"); };
  EXPECT_THAT(read("1,2,64"), ElementsAre(1, 2, 64));
  const auto message = [&](const std::string& text) {
    return test::message_of<ConfigError>([&] { static_cast<void>(read(text)); });
  };
  EXPECT_EQ(message("1,x"), "--dp '1,x': 'x' is not a whole number. Write for example 1,2,4.");
  EXPECT_THAT(message("1,"), HasSubstr("'' is not a whole number"));
  EXPECT_THAT(message("1.5"), HasSubstr("'1.5' is not a whole number"));
  std::string many = "1";
  for (int i = 2; i <= 101; ++i) many += "," + std::to_string(i);
  EXPECT_EQ(message(many), "--dp has 101 numbers. It must have at most 100.");
}

TEST(QuestionFlags, CountsHaveBounds) {
  EXPECT_NO_THROW(expect_between("--nodes", 1, 1, 3));
  EXPECT_NO_THROW(expect_between("--nodes", 3, 1, 3));
  EXPECT_EQ(test::message_of<ConfigError>([] { expect_between("--nodes", 4, 1, 3); }),
            "--nodes is 4. It must be from 1 to 3.");
}

}  // namespace
}  // namespace ultra::train
