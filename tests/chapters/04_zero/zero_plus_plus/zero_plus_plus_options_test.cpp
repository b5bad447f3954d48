#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_options.hpp"

#include "tests/chapters/04_zero/zero_flags.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using ultra::test::Words;

class ZeroPlusPlusOptionsTest : public test::ZeroFlags {
 protected:
  [[nodiscard]] ZeroPlusPlus settings(const std::string& line) {
    expect_valid(line);
    return zero.settings(data_parallel, DType::kF32).plus_plus;
  }

  void expect_unreadable(const std::string& list, const Words& parts) {
    const auto read = [&] { parse(Words{"--zero", "3", "--zero++", list}); };
    test::expect_parts(test::message_of<ConfigError>(read), parts);
  }
};

constexpr BlockFormat kInt8{.bits = QuantizedBits::kEight};
constexpr BlockFormat kInt4{.bits = QuantizedBits::kFour, .block = 32};

TEST_F(ZeroPlusPlusOptionsTest, WordsAreTechniquesInAnyOrder) {
  EXPECT_EQ(settings("--zero 3 --zero++ weights-int8"),
            (ZeroPlusPlus{.weights = kInt8, .gradients = {}, .node_size = {}}));
  EXPECT_EQ(settings("--zero 3 --zero++ gradients-int4"),
            (ZeroPlusPlus{.weights = {}, .gradients = kInt4, .node_size = {}}));
  const ZeroPlusPlus all{
      .weights = kInt8, .secondary = SecondaryShards::kInNode, .gradients = kInt8, .node_size = 4};
  const std::string sizes = "--zero 3 --node-size 4 ";
  EXPECT_EQ(settings(sizes + "--zero++ gradients-int8,hierarchical,weights-int8"), all);
  EXPECT_EQ(zero.plus_plus.config(),
            (train::ExtraConfig{
                {"zero_plus_plus", std::string("gradients-int8,hierarchical,weights-int8")},
                {"node_size", std::size_t{4}}}));
  EXPECT_EQ(settings("--zero++ weights-int8,hierarchical,gradients-int8 " + sizes), all)
      << "flags in any order";
}

TEST_F(ZeroPlusPlusOptionsTest, OtherWordsAreRefusedWithThoseThereAre) {
  const std::string words = "weights-int8, hierarchical, gradients-int8 or gradients-int4";
  expect_unreadable("weights", {"--zero++ is 'weights'", words});
  expect_unreadable("", {"--zero++ is empty"});
  expect_unreadable("weights-int8,", {"--zero++ is ''", words});
  expect_unreadable("weights-int8, hierarchical", {"--zero++ is ' hierarchical'", words});
  expect_unreadable("hierarchical,weights-int4", {"--zero++ is 'weights-int4'", words});
}

TEST_F(ZeroPlusPlusOptionsTest, WordsAreThereOnce) {
  expect_unreadable("hierarchical,weights-int8,hierarchical",
                    {"names hierarchical twice", "Name each technique once"});
  expect_unreadable("gradients-int4,gradients-int4", {"names gradients-int4 twice", "once"});
  const Words both = {"names gradients-int8 and gradients-int4", "Choose one"};
  expect_unreadable("gradients-int4,gradients-int8", both);
  expect_unreadable("gradients-int8,gradients-int4", both);
}

TEST_F(ZeroPlusPlusOptionsTest, NeedParametersInShardsAndNodes) {
  for (const std::string stage : {"0", "1", "2"}) {
    expect_refused({{"--zero " + stage + " --zero++ weights-int8",
                     {"--zero++ weights-int8 needs parameters in shards", "--zero is " + stage,
                      "Add --zero 3"}}});
  }
  expect_refused({{"--zero 3 --zero++ weights-int8,hierarchical",
                   {"--zero++ weights-int8,hierarchical needs nodes", "--node-size is not given",
                    "Add --node-size N"}}});
}

TEST_F(ZeroPlusPlusOptionsTest, NodesNeedSomethingThatUsesThem) {
  const Words parts = {"--node-size 2 has no meaning",
                       "without --zero++ hierarchical, gradients-int8 or gradients-int4",
                       "Leave it out"};
  expect_refused({{"--node-size 2", parts},
                  {"--zero 3 --node-size 2", parts},
                  {"--zero 3 --node-size 2 --zero++ weights-int8", parts}});
  for (const char* list : {"hierarchical", "gradients-int8", "weights-int8,gradients-int4"}) {
    EXPECT_EQ(settings(std::string("--zero 3 --node-size 2 --zero++ ") + list).node_size, 2U);
  }
}

TEST_F(ZeroPlusPlusOptionsTest, FlagsThatItsTechniquesTakeTheMeaningFromAreRefused) {
  const std::string remedy = "Leave out one of the two flags";
  const std::string with = " does not go together with --zero++ ";
  expect_refused(
      {{"--zero 3 --zero++ weights-int8 --hybrid-shard 2",
        {"--hybrid-shard 2" + with + "weights-int8", "shards on all ranks", remedy}},
       {"--zero 3 --zero++ hierarchical --node-size 2 --reshard-after-forward no",
        {"--reshard-after-forward no" + with + "hierarchical", "not gathered again", remedy}},
       {"--zero 3 --zero++ gradients-int4 --reduce-scatter pairwise",
        {"--reduce-scatter" + with + "gradients-int4", "all-to-all", remedy}}});
  static_cast<void>(settings("--zero 3 --zero++ weights-int8 --reshard-after-forward no"));
  static_cast<void>(settings("--zero 3 --zero++ weights-int8 --reduce-scatter ring"));
}

TEST_F(ZeroPlusPlusOptionsTest, NodesMakeUpTheReplicas) {
  parse("--zero 3 --zero++ hierarchical --node-size 3");
  EXPECT_NO_THROW(zero.expect_nodes_of(6));
  expect_nodes_refused(
      8, {"--node-size 3", "8 ranks are not whole nodes of 3", "Choose a divisor of 8"});
  for (const char* bad : {"0", "-1", "1.5", "two", "3000000000"}) {
    test::expect_refused<ConfigError>(
        [&](const Words& words) { parse(words); },
        {{std::string("--node-size ") + bad, {"--node-size is ", "from 1 to 1000000"}}});
  }
}

}  // namespace
}  // namespace ultra::zero
