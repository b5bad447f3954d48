#include "common/train/options/comm_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"
#include "tests/support/star_algorithms.hpp"

namespace ultra::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CommOptions parse(const std::vector<std::string>& arguments) {
  return test::parsed<CommOptions>(arguments);
}

std::string refusal(const std::vector<std::string>& arguments) {
  return test::message_of<ConfigError>([&] { parse(arguments).validate(); });
}

TEST(CommOptions, DefaultsAreOneRankWithOurCollectives) {
  const CommOptions options = parse({});
  EXPECT_NO_THROW(options.validate());
  EXPECT_EQ(options.world_size(), 1);
  const auto ours = std::make_shared<const test::StarAlgorithms>();
  const RankOptions ranks = options.rank_options(ours);
  EXPECT_EQ(ranks.algorithms, ours);
  EXPECT_EQ(ranks.timeout.count(), 60.0);
  EXPECT_EQ(ranks.checking, Checking::kOn);
  EXPECT_EQ(ranks.progress, ultra::Progress::kThread);
  EXPECT_FALSE(ranks.link.has_value());
}

TEST(CommOptions, EveryFlagReachesItsValue) {
  const CommOptions options =
      parse({"--ranks", "3", "--timeout", "0.5", "--link", "latency-us=50,gbps=1", "--progress",
             "on-call", "--check-collectives", "off", "--collectives", "ours"});
  EXPECT_NO_THROW(options.validate());
  EXPECT_EQ(options.world_size(), 3);
  const RankOptions ranks = options.rank_options(std::make_shared<const test::StarAlgorithms>());
  EXPECT_EQ(ranks.timeout.count(), 0.5);
  EXPECT_EQ(ranks.checking, Checking::kOff);
  EXPECT_EQ(ranks.progress, ultra::Progress::kOnCall);
  ASSERT_TRUE(ranks.link.has_value());
  EXPECT_DOUBLE_EQ(ranks.link->latency, 50e-6);
  EXPECT_DOUBLE_EQ(ranks.link->bytes_per_second, 125e6);
}

TEST(CommOptions, NativeCollectivesAreNoAlgorithms) {
  const CommOptions options = parse({"--collectives", "native"});
  EXPECT_NO_THROW(options.validate());
  EXPECT_EQ(options.rank_options(std::make_shared<const test::StarAlgorithms>()).algorithms,
            nullptr);
}

TEST(CommOptions, StandInTheMetricsFile) {
  const ExtraConfig config =
      parse({"--ranks", "3", "--collectives", "native", "--timeout", "7"}).config();
  EXPECT_EQ(config, (ExtraConfig{{"ranks", std::size_t{3}},
                                 {"collectives", std::string("native")},
                                 {"link", std::string()},
                                 {"timeout", 7.0}}));
}

TEST(CommOptions, RefuseWhatCannotWork) {
  EXPECT_THAT(refusal({"--ranks", "0"}), AllOf(HasSubstr("--ranks is 0"), HasSubstr("at least 1")));
  EXPECT_THAT(refusal({"--ranks", "257"}),
              AllOf(HasSubstr("--ranks is 257"), HasSubstr("256"), HasSubstr("mpirun")));
  EXPECT_THAT(refusal({"--timeout", "0"}), HasSubstr("--timeout is 0"));
  EXPECT_THAT(refusal({"--timeout=-3"}), HasSubstr("--timeout is -3"));
  EXPECT_THAT(refusal({"--timeout", "nan"}), HasSubstr("--timeout is nan"));
  EXPECT_THAT(refusal({"--timeout", "inf"}), HasSubstr("--timeout is inf"));
  EXPECT_THAT(refusal({"--collectives", "mine"}),
              AllOf(HasSubstr("--collectives is 'mine'"), HasSubstr("ours or native")));
  EXPECT_THAT(refusal({"--progress", "no"}), HasSubstr("thread or on-call"));
  EXPECT_THAT(refusal({"--check-collectives", "1"}), HasSubstr("on or off"));
  EXPECT_THAT(refusal({"--link", "fast"}), HasSubstr("gbps"));
  EXPECT_THAT(refusal({"--link", "latency-us=50,gbps=1", "--collectives", "native"}),
              AllOf(HasSubstr("--link"), HasSubstr("--collectives ours")));
  for (const char* text : {"-1", "1.5", "many", "99999999999999999999999"}) {
    EXPECT_THAT(test::message_of<CLI::ParseError>([&] {
                  static_cast<void>(parse({"--ranks", text}));
                }),
                HasSubstr("--ranks"));
  }
}

TEST(WorldSize, IsWhatWasAskedForOrLaunched) {
  EXPECT_EQ(resolve_world_size({}, {}), 1);
  EXPECT_EQ(resolve_world_size(4, {}), 4);
  EXPECT_EQ(resolve_world_size({}, 3), 3);
  EXPECT_EQ(resolve_world_size(3, 3), 3);
  EXPECT_EQ(resolve_world_size({}, 5000), 5000) << "processes are not limited";
}

TEST(WorldSize, MustBeMpirunsOwn) {
  EXPECT_THAT(
      test::message_of<ConfigError>([] { static_cast<void>(resolve_world_size(3, 2)); }),
      AllOf(HasSubstr("--ranks is 3"), HasSubstr("mpirun started 2"), HasSubstr("mpirun -n 3")));
  EXPECT_THROW(static_cast<void>(resolve_world_size(0, 2)), ConfigError);
}

}  // namespace
}  // namespace ultra::train
