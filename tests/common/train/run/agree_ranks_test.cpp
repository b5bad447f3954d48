#include "common/train/run/agree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/errors.hpp"
#include "common/comm/comm_error.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/ranks/rank_fates.hpp"

namespace ultra::train {
namespace {

using ::testing::HasSubstr;

TEST(Agree, GoesOnWhenAllRanksSucceed) {
  for (const int size : {1, 3}) {
    run_ranks(size, [&](Communicator& world) {
      int calls = 0;
      agree(world, [&] { ++calls; });
      EXPECT_EQ(calls, 1);
    });
  }
}

/// Expects that each of three ranks is told `message` when `failing` throws an E.
template <class E>
void expect_told(int failing, const std::string& message) {
  run_ranks(3, [&](Communicator& world) {
    EXPECT_EQ(test::message_of<E>([&] {
                agree(world, [&] {
                  if (world.rank() == failing) throw E("no such file");
                });
              }),
              message);
    world.barrier().wait();  // the world is whole: nobody was lost
  });
}

TEST(Agree, AllRanksThrowTheErrorOfRankZeroAsItIs) {
  expect_told<FileError>(0, "no such file");
  expect_told<ConfigError>(0, "no such file");
}

TEST(Agree, AnErrorOfAnotherRankNamesIt) {
  expect_told<FileError>(1, "rank 1: no such file");
  expect_told<ConfigError>(2, "rank 2: no such file");
}

TEST(Agree, TheLowestRankSpeaksWhenAllFail) {
  run_ranks(3, [](Communicator& world) {
    EXPECT_EQ(test::message_of<FileError>([&] {
                agree(world, [&] { throw FileError("from " + std::to_string(world.rank())); });
              }),
              "from 0");
  });
}

TEST(Agree, OtherErrorsEndTheRunAsTheyAre) {
  const test::Fates fates = test::fates_of(3, [](Communicator& world) {
    agree(world, [&] {
      if (world.rank() == 1) throw NotWritten("02.1 ring_all_reduce");
    });
  });
  EXPECT_EQ(kind_of(fates.thrown), ErrorKind::kNotWritten);
  EXPECT_THAT(ultra::message_of(fates.thrown), HasSubstr("02.1 ring_all_reduce"));
}

std::string differ(int rank, const std::string& said, const std::string& by_rank_0) {
  if (said == by_rank_0) return {};
  return "rank " + std::to_string(rank) + " says " + said + ", rank 0 says " + by_rank_0;
}

TEST(ExpectSame, GoesOnWhenAllRanksSayTheSame) {
  for (const int size : {1, 3}) {
    run_ranks(size, [&](Communicator& world) { expect_same(world, "yes", differ); });
  }
}

TEST(ExpectSame, TheLowestRankThatDiffersIsNamedOnAllRanks) {
  run_ranks(4, [](Communicator& world) {
    const std::string said = world.rank() < 2 ? "yes" : "no " + std::to_string(world.rank());
    EXPECT_EQ(test::message_of<ConfigError>([&] { expect_same(world, said, differ); }),
              "rank 2 says no 2, rank 0 says yes");
    world.barrier().wait();  // the world is whole: nobody was lost
  });
}

}  // namespace
}  // namespace ultra::train
