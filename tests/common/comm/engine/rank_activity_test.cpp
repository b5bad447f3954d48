// Covers: common/comm/engine/short_turns.hpp

#include "common/comm/engine/rank_activity.hpp"

#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <compare>

#include "common/comm/engine/short_turns.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::comm {
namespace {

using State = RankActivity::State;

RankActivity computing(double ran, double queued) {
  return {.state = State::kComputes,
          .waits_in = {},
          .processor = ProcessorTime{.ran = ran, .queued = queued}};
}

RankActivity waiting(const std::string& what) {
  return {.state = State::kWaits, .waits_in = what, .processor = ProcessorTime{}};
}

/// What is said when rank 0 has waited for 50 s, and rank 1 was on a core and in line for so long.
std::string told_of(double ran, double queued) {
  return tell_activities(0, {waiting(""), computing(7, 8)},
                         {waiting(""), computing(7 + ran, 8 + queued)}, 50);
}

TEST(RankActivity, TellsWhetherARankIsStarvedOrComputesOrSleeps) {
  EXPECT_THAT(
      told_of(1, 40),
      AllOf(HasSubstr(
                " In the last 50 s rank 1 was 1 s on a core and 40 s in line for one: starved."),
            HasSubstr("Who is starved is not stuck"), HasSubstr("load")));
  EXPECT_THAT(told_of(49, 1),
              AllOf(HasSubstr("in line for one: computing."), HasSubstr("raise --timeout")));
  EXPECT_THAT(told_of(0.1, 0.1), AllOf(HasSubstr("in line for one: asleep, stopped, or waiting"),
                                       HasSubstr("Look at the process")));
}

TEST(RankActivity, TellsWhatTheOthersWaitFor) {
  const std::vector<RankActivity> ranks = {waiting("x"), computing(1, 0),
                                           waiting("recv #3 of 'pp'")};
  EXPECT_THAT(tell_activities(0, ranks, ranks, 5),
              AllOf(HasSubstr(" Rank 2 waits in recv #3 of 'pp'."), Not(HasSubstr("ank 0"))));
}

TEST(RankActivity, WhenAllWaitTheirOrderIsWrong) {
  const std::vector<RankActivity> ranks = {waiting("a"), waiting("b")};
  EXPECT_EQ(tell_activities(0, ranks, ranks, 5),
            " Every rank waits: their operations do not fit together. Rank 1 waits in b.");
}

TEST(RankActivity, OfRanksThatCannotBeSeenNothingIsClaimed) {
  EXPECT_THAT(tell_activities(0, {}, std::vector<RankActivity>(2), 5),
              StartsWith(" Look at what the missing ranks do"));
  EXPECT_THAT(tell_activities(0, {}, {waiting(""), computing(1, 1)}, 5),
              StartsWith(" Look at what the missing ranks do"))
      << "without a first look there is no difference";
}

TEST(RankActivity, OfManyRanksTheFirstAreDescribed) {
  std::vector<RankActivity> ranks(10, computing(1, 1));
  ranks.resize(20, waiting("it"));
  EXPECT_THAT(tell_activities(0, ranks, ranks, 5),
              AllOf(HasSubstr("rank 3 was"), Not(HasSubstr("rank 4 was")),
                    HasSubstr("and 6 others."), HasSubstr("rank 12 waits in it; and 7 others.")));
}

TEST(ProcessorTimes, GrowWhileAThreadComputesAndNotWhileItSleeps) {
  const auto now = [] {
    return processor_time(getpid(), static_cast<int>(syscall(SYS_gettid))).value().ran;
  };
  const double before = now();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double slept = now();
  EXPECT_LT(slept - before, 0.02);
  volatile double sink = 0;
  const std::clock_t begin = std::clock();
  while (std::clock() - begin < CLOCKS_PER_SEC / 10) sink = sink + 1;
  EXPECT_GT(now() - slept, 0.05);
}

TEST(ProcessorTimes, OfAThreadThatIsNotThereAreUnknown) {
  EXPECT_FALSE(processor_time(getpid(), 0).has_value());
}

struct Release {
  int major = 0;
  int minor = 0;
  auto operator<=>(const Release&) const = default;
};

Release release_of_linux() {
  utsname name{};
  EXPECT_EQ(::uname(&name), 0);
  Release release;
  EXPECT_EQ(std::sscanf(name.release, "%d.%d", &release.major, &release.minor), 2);
  return release;
}

/// What the kernel says of the calling thread: struct sched_attr as words of 4 bytes.
std::array<std::uint32_t, 12> attributes_of_this_thread() {
  std::array<std::uint32_t, 12> words{};
  EXPECT_EQ(::syscall(SYS_sched_getattr, 0, words.data(), sizeof words, 0U), 0);
  return words;
}

TEST(ShortTurns, AreOfTheThreadThatAskedAndNoOther) {
  constexpr std::size_t kPolicy = 1;
  constexpr std::size_t kNice = 4;
  constexpr std::size_t kRuntime = 6;
  const auto before = attributes_of_this_thread();
  std::array<std::uint32_t, 12> asked{};
  std::thread([&] {
    ask_for_short_turns();
    asked = attributes_of_this_thread();
  }).join();
  EXPECT_EQ(attributes_of_this_thread(), before);
  EXPECT_EQ(asked[kPolicy], before[kPolicy]);
  EXPECT_EQ(asked[kNice], before[kNice]);
  const bool knows_turns = release_of_linux() >= Release{.major = 6, .minor = 12};
  EXPECT_EQ(asked[kRuntime], knows_turns ? kShortTurn : before[kRuntime]);
}

}  // namespace
}  // namespace ultra::comm
