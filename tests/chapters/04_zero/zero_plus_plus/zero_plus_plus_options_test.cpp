#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "chapters/04_zero/zero_options.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::zero {
namespace {

using data_parallel::DataParallelOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::ultra::test::message_of;
using Words = std::vector<std::string>;

/// The flags of ZeRO and ZeRO++ as one command line sets them.
class ZeroPlusPlusOptionsTest : public ::testing::Test {
 protected:
  void parse(const Words& arguments) {
    data_parallel = {};
    zero = {};
    ultra::test::parse_into(arguments, data_parallel, zero);
  }

  [[nodiscard]] ZeroPlusPlus settings(const Words& arguments) {
    parse(arguments);
    EXPECT_NO_THROW(zero.validate(data_parallel, 0)) << ::testing::PrintToString(arguments);
    return zero.settings(data_parallel, DType::kF32).plus_plus;
  }

  /// The message says what was found, why that does not do, and what to do.
  void expect_refused(const Words& arguments, const std::string& what, const std::string& why,
                      const std::string& remedy) {
    parse(arguments);
    const std::string message = message_of<ConfigError>([&] { zero.validate(data_parallel, 0); });
    EXPECT_THAT(message, AllOf(HasSubstr(what), HasSubstr(why), HasSubstr(remedy)))
        << ::testing::PrintToString(arguments);
    EXPECT_EQ(message.find('\n'), std::string::npos) << "one line";
  }

  void expect_unreadable(const std::string& list, const std::string& what,
                         const std::string& remedy) {
    EXPECT_THAT(message_of<ConfigError>([&] {
                  parse({"--zero", "3", "--zero++", list});
                }),
                AllOf(HasSubstr(what), HasSubstr(remedy)))
        << list;
  }

  DataParallelOptions data_parallel;
  ZeroOptions zero;
};

constexpr BlockFormat kInt8{.bits = QuantizedBits::kEight};
constexpr BlockFormat kInt4{.bits = QuantizedBits::kFour, .block = 32};

TEST_F(ZeroPlusPlusOptionsTest, ByDefaultNothingChanges) {
  EXPECT_EQ(settings({}), ZeroPlusPlus());
  EXPECT_EQ(settings({"--zero", "3"}), ZeroPlusPlus());
  EXPECT_TRUE(zero.plus_plus.config().empty());
}

TEST_F(ZeroPlusPlusOptionsTest, WordsAreTechniquesInAnyOrder) {
  EXPECT_EQ(settings({"--zero", "3", "--zero++", "weights-int8"}),
            (ZeroPlusPlus{.weights = kInt8, .gradients = {}, .node_size = {}}));
  EXPECT_EQ(settings({"--zero", "3", "--zero++", "gradients-int4"}),
            (ZeroPlusPlus{.weights = {}, .gradients = kInt4, .node_size = {}}));
  const ZeroPlusPlus all{
      .weights = kInt8, .secondary = SecondaryShards::kInNode, .gradients = kInt8, .node_size = 4};
  EXPECT_EQ(settings({"--zero", "3", "--node-size", "4", "--zero++",
                      "gradients-int8,hierarchical,weights-int8"}),
            all);
  EXPECT_EQ(settings({"--zero++", "weights-int8,hierarchical,gradients-int8", "--zero", "3",
                      "--node-size", "4"}),
            all)
      << "flags in any order";
}

TEST_F(ZeroPlusPlusOptionsTest, OtherWordsAreRefusedWithThoseThereAre) {
  const std::string words = "weights-int8, hierarchical, gradients-int8 or gradients-int4";
  expect_unreadable("weights", "--zero++ is 'weights'", words);
  expect_unreadable("", "--zero++ is ''", words);
  expect_unreadable("weights-int8,", "--zero++ is ''", words);
  expect_unreadable("weights-int8, hierarchical", "--zero++ is ' hierarchical'", words);
  expect_unreadable("hierarchical,weights-int4", "--zero++ is 'weights-int4'", words);
}

TEST_F(ZeroPlusPlusOptionsTest, WordsAreThereOnce) {
  expect_unreadable("hierarchical,weights-int8,hierarchical", "names hierarchical twice",
                    "Name each technique once");
  expect_unreadable("gradients-int4,gradients-int4", "names gradients-int4 twice", "once");
  expect_unreadable("gradients-int4,gradients-int8", "names gradients-int8 and gradients-int4",
                    "Choose one");
  expect_unreadable("gradients-int8,gradients-int4", "names gradients-int8 and gradients-int4",
                    "Choose one");
}

TEST_F(ZeroPlusPlusOptionsTest, ParametersMustBeInShards) {
  for (const char* stage : {"0", "1", "2"}) {
    expect_refused({"--zero", stage, "--zero++", "weights-int8"},
                   "--zero++ weights-int8 needs parameters in shards",
                   std::string("--zero is ") + stage, "Add --zero 3");
  }
}

TEST_F(ZeroPlusPlusOptionsTest, HierarchicalNeedsNodes) {
  expect_refused({"--zero", "3", "--zero++", "weights-int8,hierarchical"},
                 "--zero++ weights-int8,hierarchical needs nodes", "--node-size is not given",
                 "Add --node-size N");
}

TEST_F(ZeroPlusPlusOptionsTest, NodesNeedSomethingThatUsesThem) {
  for (const Words& flags :
       {Words{"--node-size", "2"}, Words{"--zero", "3", "--node-size", "2"},
        Words{"--zero", "3", "--node-size", "2", "--zero++", "weights-int8"}}) {
    expect_refused(flags, "--node-size 2 has no meaning",
                   "without --zero++ hierarchical, gradients-int8 or gradients-int4",
                   "Leave it out");
  }
  for (const char* list : {"hierarchical", "gradients-int8", "weights-int8,gradients-int4"}) {
    EXPECT_EQ(settings({"--zero", "3", "--node-size", "2", "--zero++", list}).node_size, 2U);
  }
}

TEST_F(ZeroPlusPlusOptionsTest, FlagsThatItsTechniquesTakeTheMeaningFromAreRefused) {
  const std::string remedy = "Leave out one of the two flags";
  expect_refused({"--zero", "3", "--zero++", "weights-int8", "--hybrid-shard", "2"},
                 "--hybrid-shard 2 does not go together with --zero++ weights-int8",
                 "shards on all ranks", remedy);
  expect_refused({"--zero", "3", "--zero++", "hierarchical", "--node-size", "2",
                  "--reshard-after-forward", "no"},
                 "--reshard-after-forward no does not go together with --zero++ hierarchical",
                 "not gathered again", remedy);
  expect_refused({"--zero", "3", "--zero++", "gradients-int4", "--reduce-scatter", "pairwise"},
                 "--reduce-scatter does not go together with --zero++ gradients-int4", "all-to-all",
                 remedy);
  static_cast<void>(
      settings({"--zero", "3", "--zero++", "weights-int8", "--reshard-after-forward", "no"}));
  static_cast<void>(
      settings({"--zero", "3", "--zero++", "weights-int8", "--reduce-scatter", "ring"}));
}

TEST_F(ZeroPlusPlusOptionsTest, NodesMakeUpTheReplicas) {
  parse({"--zero", "3", "--zero++", "hierarchical", "--node-size", "3"});
  EXPECT_NO_THROW(zero.expect_nodes_of(6));
  EXPECT_THAT(message_of<ConfigError>([&] { zero.expect_nodes_of(8); }),
              AllOf(HasSubstr("--node-size 3"), HasSubstr("8 ranks are not whole nodes of 3"),
                    HasSubstr("Choose a divisor of 8")));
  parse({"--zero", "3", "--zero++", "hierarchical", "--node-size", "0"});
  EXPECT_THROW(zero.expect_nodes_of(8), ConfigError);
  for (const char* bad : {"-1", "1.5", "two"}) {
    EXPECT_THAT(message_of<CLI::ParseError>([&] {
                  parse({"--node-size", bad});
                }),
                HasSubstr("--node-size"));
  }
}

TEST_F(ZeroPlusPlusOptionsTest, TheMetricsFileHasTheFlags) {
  parse({"--zero", "3", "--zero++", "hierarchical,gradients-int4", "--node-size", "2"});
  const train::ExtraConfig config = zero.config(data_parallel);
  ASSERT_EQ(config.size(), 7U);
  EXPECT_EQ(config[5].first, "zero_plus_plus");
  EXPECT_EQ(std::get<std::string>(config[5].second), "hierarchical,gradients-int4");
  EXPECT_EQ(config[6].first, "node_size");
  EXPECT_EQ(std::get<std::size_t>(config[6].second), 2U);
}

}  // namespace
}  // namespace ultra::zero
