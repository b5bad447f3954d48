// Lists of values on a command line that names another machine, and models by name.
//
// Covers: common/train/elsewhere/sweep.hpp
// Covers: common/train/options/named_models.hpp

#include "common/train/elsewhere/sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/errors.hpp"
#include "common/train/options/named_models.hpp"
#include "tests/support/programs/command_line.hpp"

namespace ultra::train {
namespace {

using test::words_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool reads_splits(const std::string& flag, const std::string&) { return flag == "--stage-split"; }

TEST(Sweep, IsEveryCombinationOfTheLists) {
  const Sweep sweep =
      sweep_of(words_of("--on dgx-h100:2,straggler=0 --tp 1,2 --zero --name=a,b,c"), reads_splits);
  EXPECT_THAT(sweep.flags, ElementsAre("--tp", "--name"));
  ASSERT_EQ(sweep.lines.size(), 6U);
  EXPECT_THAT(sweep.values[0], ElementsAre("1", "a"));
  EXPECT_THAT(sweep.values[1], ElementsAre("1", "b")) << "the last flag's values are the fastest";
  EXPECT_THAT(sweep.values[5], ElementsAre("2", "c"));
  EXPECT_EQ(sweep.lines[4], words_of("--on dgx-h100:2,straggler=0 --tp 2 --zero --name=b"));
}

TEST(Sweep, LeavesWhatAFlagReadsItself) {
  const std::vector<std::string> words = words_of("--stage-split 3,2,3 --tp 4");
  const Sweep sweep = sweep_of(words, reads_splits);
  EXPECT_TRUE(sweep.flags.empty());
  EXPECT_THAT(sweep.lines, ElementsAre(words));
}

TEST(Sweep, RefusesMoreThanAnybodyLooksAt) {
  std::string words;
  for (const char flag : {'a', 'b', 'c', 'd'}) words += std::string(" --") + flag + " 1,2,3,4,5,6";
  try {
    static_cast<void>(sweep_of(words_of(words), reads_splits));
    FAIL() << "1296 combinations";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--a, --b, --c, --d have more than 1000 combinations"));
  }
}

TEST(NamedModels, StandForTheirFlags) {
  const std::vector<NamedModel> models = {
      {.name = "tiny", .flags = {{"--layers", "2"}, {"--tied", ""}}}};
  EXPECT_EQ(with_model_flags(words_of("--model tiny --seq 8"), models),
            words_of("--model tiny --seq 8 --layers 2 --tied"));
  EXPECT_EQ(with_model_flags(words_of("--layers=3 --model=tiny"), models),
            words_of("--layers=3 --model=tiny --tied"))
      << "what the command line says itself holds";
  EXPECT_EQ(with_model_flags(words_of("--seq 8"), models), words_of("--seq 8"));
}

TEST(NamedModels, RefusesAnUnknownName) {
  try {
    static_cast<void>(
        with_model_flags(words_of("--model llama-9b"), {in_flags(nn::published_models().front())}));
    FAIL() << "no such model";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no model is called 'llama-9b'. Choose llama-1b, "));
  }
}

}  // namespace
}  // namespace ultra::train
