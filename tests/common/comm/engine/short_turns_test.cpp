#include "common/comm/engine/short_turns.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <compare>
#include <cstdint>
#include <cstdio>
#include <thread>

namespace ultra::comm {
namespace {

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
