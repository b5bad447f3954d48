#include "common/train/options/choice_option.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::train {
namespace {

enum class Fruit { kApple, kPear, kPlum };

const std::vector<Choice<Fruit>> kFruits = {
    {"apple", Fruit::kApple}, {"pear", Fruit::kPear}, {"plum", Fruit::kPlum}};

struct FruitOptions {
  Fruit fruit = Fruit::kPear;
  void add_to(CLI::App& app) { add_choice(app, "--fruit", fruit, kFruits, "Food", "what to eat"); }
};

TEST(ChoiceOption, EachWordHasItsMeaning) {
  EXPECT_EQ(test::parsed<FruitOptions>({"--fruit", "apple"}).fruit, Fruit::kApple);
  EXPECT_EQ(test::parsed<FruitOptions>({"--fruit", "plum"}).fruit, Fruit::kPlum);
}

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

}  // namespace
}  // namespace ultra::train
