#include "common/train/options/comm_options.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/programs/command_line.hpp"
#include "tests/support/ranks/star_algorithms.hpp"

namespace ultra::train {
namespace {

using test::options_of;
using test::valid;

TEST(CommOptions, EveryFlagReachesItsValue) {
  const auto options = valid<CommOptions>(
      "--ranks 3 --timeout 0.5 --link latency-us=50,gbps=1 --progress on-call "
      "--check-collectives off --collectives ours");
  EXPECT_EQ(options.world_size(), 3);
  const RankOptions ranks = options.rank_options(std::make_shared<const test::StarAlgorithms>());
  EXPECT_EQ(ranks.timeout.count(), 0.5);
  EXPECT_EQ(ranks.checking, Checking::kOff);
  EXPECT_EQ(ranks.progress, ultra::Progress::kOnCall);
  ASSERT_TRUE(ranks.link.has_value());
  EXPECT_DOUBLE_EQ(ranks.link->latency, 50e-6);
  EXPECT_DOUBLE_EQ(ranks.link->bytes_per_second, 125e6);
  const auto native = valid<CommOptions>("--collectives native");
  EXPECT_EQ(native.rank_options(std::make_shared<const test::StarAlgorithms>()).algorithms,
            nullptr);
}

TEST(CommOptions, StandInTheMetricsFile) {
  const ExtraConfig config =
      options_of<CommOptions>("--ranks 3 --collectives native --timeout 7").config();
  EXPECT_EQ(config, (ExtraConfig{{"ranks", std::size_t{3}},
                                 {"collectives", std::string("native")},
                                 {"link", std::string()},
                                 {"timeout", 7.0}}));
}

TEST(CommOptions, RefuseWhatCannotWork) {
  test::expect_refused<CommOptions>(
      {{"--ranks 0", {"--ranks is 0", "from 1"}},
       {"--ranks 257", {"--ranks is 257", "256", "mpirun"}},
       {"--timeout 0", {"--timeout is 0"}},
       {"--timeout=-3", {"--timeout is -3"}},
       {"--timeout nan", {"--timeout is nan"}},
       {"--timeout inf", {"--timeout is inf"}},
       {"--timeout 1e300", {"--timeout is 1e300", "from 0.001"}},
       {"--timeout 1e-300", {"--timeout is 1e-300"}},
       {"--collectives mine", {"--collectives is 'mine'", "ours or native"}},
       {"--progress no", {"thread or on-call"}},
       {"--check-collectives 1", {"on or off"}},
       {"--link fast", {"--link: ", "'fast'", "gbps"}},
       {"--link latency-us=50,gbps=1 --collectives native", {"--link", "--collectives ours"}},
       {"--ranks -1", {"--ranks is -1"}},
       {"--ranks 1.5", {"--ranks is 1.5"}},
       {"--ranks many", {"--ranks is 'many'"}},
       {"--ranks 99999999999999999999999", {"--ranks is 99999999999999999999999"}}});
}

TEST(WorldSize, IsWhatWasAskedForOrLaunched) {
  EXPECT_EQ(resolve_world_size({}, {}), 1);
  EXPECT_EQ(resolve_world_size(4, {}), 4);
  EXPECT_EQ(resolve_world_size({}, 3), 3);
  EXPECT_EQ(resolve_world_size(3, 3), 3);
  EXPECT_EQ(resolve_world_size({}, 5000), 5000) << "processes are not limited";
}

TEST(WorldSize, MustBeMpirunsOwn) {
  const auto three_of_two = [] { static_cast<void>(resolve_world_size(3, 2)); };
  test::expect_parts(test::message_of<ConfigError>(three_of_two),
                     {"--ranks is 3", "mpirun started 2", "mpirun -n 3"});
}

TEST(WorldSize, OfThreadsIsLimitedAndTheMessageSaysWhatAskedForThem) {
  EXPECT_NO_THROW(expect_thread_ranks(256, "--tp 256 needs 256"));
  test::expect_parts(
      test::message_of<ConfigError>([] { expect_thread_ranks(257, "--tp 257 needs 257"); }),
      {"--tp 257 needs 257. Ranks are threads of this process, at most 256", "mpirun"});
}

}  // namespace
}  // namespace ultra::train
