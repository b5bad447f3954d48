// Covers: common/train/options/question_flags.hpp, common/train/cli/prediction.hpp
#include "common/train/options/question_flags.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "common/train/cli/prediction.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/programs/command_line.hpp"

namespace ultra::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST(QuestionFlags, APredictionAnswersWhenItIsAsked) {
  Prediction<Asked> technique;
  train::Setup setup;
  EXPECT_TRUE(technique.questions().empty());
  EXPECT_FALSE(technique.answer(setup).has_value());
  CLI::App app;
  technique.add_flags(app, setup);
  app.parse("--ask layers");
  technique.validate(setup);
  ASSERT_EQ(technique.questions().size(), 1U);
  EXPECT_EQ(technique.questions().front().flag, "--ask");
  setup.train.model.num_layers = 3;
  EXPECT_EQ(technique.answer(setup), "layers of 3");
}

}  // namespace
}  // namespace ultra::train
