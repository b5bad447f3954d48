// The table behind a training: what was measured, beside what is recorded.
//
// Covers: common/train/elsewhere/memory_table.hpp

#include "common/train/elsewhere/memory_table.hpp"

#include <array>
#include <sstream>

#include "common/base/units.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/plain_training.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::train {
namespace {

constexpr std::array kExact = {MemoryCategory::kParameters, MemoryCategory::kGradients,
                               MemoryCategory::kOptimizer, MemoryCategory::kActivations};

/// What a technique may say of a record.
class Says : public Technique {
 public:
  explicit Says(std::string what) : what_(std::move(what)) {}
  std::vector<Conflict> conflicts_with_recording(const Setup&) const override {
    return {not_recorded("--gamble", "it depends on luck.", what_ == "row")};
  }
  std::vector<FileFlag> files() const override {
    if (what_ != "file") return {};
    return {{"--diary", "diary.txt", FileUse::kWritten}};
  }

 private:
  std::string what_;
};

class MemoryTable : public ::testing::Test {
 protected:
  void SetUp() override {
    options.steps = 2;
    result = test::train_quietly(options);
  }
  [[nodiscard]] std::string table(const std::string& says = "") const {
    return format_memory_table(
        test::setup_of(options, 1, list_of(test::plain_training(), std::make_unique<Says>(says))),
        result);
  }
  /// The words behind the number of a rank.
  [[nodiscard]] std::vector<std::string> row(const std::string& says = "") const {
    std::istringstream lines(table(says));
    for (std::string line; std::getline(lines, line);) {
      std::vector<std::string> words = test::words_of(line);
      if (!words.empty() && words.front() == "0") return {words.begin() + 1, words.end()};
    }
    ADD_FAILURE() << table(says);
    return {};
  }
  /// The measured bytes of categories, each with a word behind it or alone.
  [[nodiscard]] std::vector<std::string> measured(const std::string& behind) const {
    std::vector<std::string> words;
    for (const MemoryCategory category : kExact) {
      for (std::string& word :
           test::words_of(format_bytes(result.ranks[0].memory.peak(category).bytes))) {
        words.push_back(std::move(word));
      }
      if (!behind.empty()) words.push_back(behind);
    }
    return words;
  }

  TrainOptions options = test::short_run();
  TrainResult result;
};

TEST_F(MemoryTable, FindsWhatATrainingKeptExactlyRecorded) {
  const std::vector<std::string> words = row();
  const std::vector<std::string> expected = measured("exact");
  ASSERT_GT(words.size(), expected.size());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), words.begin())) << table();
  EXPECT_THAT(table(), HasSubstr(result.ranks[0].memory.peak_total().phase));
  EXPECT_THAT(table(), Not(HasSubstr("All ranks sent"))) << "a rank alone sends nothing";
}

TEST_F(MemoryTable, SaysHowFarAMeasurementIsFromTheRecord) {
  const MemoryPeaks& found = result.ranks[0].memory;
  MemoryPeaks::Categories categories;
  for (const MemoryCategory category : kMemoryCategories) {
    categories[static_cast<std::size_t>(category)] = found.peak(category);
  }
  categories[static_cast<std::size_t>(MemoryCategory::kOptimizer)].bytes *= 2;
  result.ranks[0].memory = {categories, found.peak_total(), found.usage_at_peak()};
  EXPECT_EQ(row()[8], "+100.0%") << table();
  EXPECT_EQ(row()[11], "exact") << table();
}

TEST_F(MemoryTable, HasTheMeasuredBytesAloneOfWhatCannotBeRecorded) {
  for (const auto& [says, flag] : {std::pair{"row", "--gamble"}, std::pair{"file", "--diary"}}) {
    EXPECT_THAT(table(says), HasSubstr(std::string("with ") + flag + ", no step is recorded"));
    const std::vector<std::string> words = row(says);
    const std::vector<std::string> expected = measured("");
    ASSERT_GT(words.size(), expected.size());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), words.begin())) << table(says);
  }
  options.init = "a-model";
  EXPECT_THAT(table(), HasSubstr("with --init, no step is recorded"));
}

TEST_F(MemoryTable, StandsBehindATrainingWhereNoTechniqueHasOne) {
  const train::Setup setup = test::setup_of(options, 1, list_of(test::plain_training()));
  EXPECT_THAT(tables(setup, result), HasSubstr("Where the memory went"));
  result.earlier_steps = result.steps.size();
  EXPECT_THAT(tables(setup, result), IsEmpty());
}

TEST(Difference, IsSignedAndRelativeToThePrediction) {
  EXPECT_EQ(format_difference(405, 400), "+1.25%");
  EXPECT_EQ(format_difference(200, 400), "-50.00%");
  EXPECT_EQ(format_difference(405, 400, 0), "+1%");
}

}  // namespace
}  // namespace ultra::train
