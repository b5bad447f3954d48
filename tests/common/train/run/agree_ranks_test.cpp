// Covers: common/train/run/text_messages.hpp

#include "common/train/run/agree.hpp"

#include "common/comm/comm_error.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/run/text_messages.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/ranks/rank_fates.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::train {
namespace {

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

TEST(ExpectSame, TheLowestRankThatDiffersIsNamedOnAllRanks) {
  run_ranks(4, [](Communicator& world) {
    const std::string said = world.rank() < 2 ? "yes" : "no " + std::to_string(world.rank());
    EXPECT_EQ(test::message_of<ConfigError>([&] { expect_same(world, said, differ); }),
              "rank 2 says no 2, rank 0 says yes");
    world.barrier().wait();  // the world is whole: nobody was lost
  });
}

data::Dataset text_of(const std::string& text, const std::string& source) {
  return {{text.begin(), text.end()}, source};
}

TEST(SameText, MayHaveAnotherNameOnEveryRank) {
  run_ranks(3, [](Communicator& world) {
    expect_same_text(world, text_of("abc", "/disk" + std::to_string(world.rank()) + "/text"));
  });
}

TEST(SameText, AnotherTextIsNamedWithBothSizesAndHashes) {
  run_ranks(3, [](Communicator& world) {
    const data::Dataset own =
        world.rank() == 2 ? text_of("abcd", "/copy/text") : text_of("abc", "/disk/text");
    EXPECT_THAT(ultra::test::message_of<ConfigError>([&] { expect_same_text(world, own); }),
                AllOf(HasSubstr("rank 2 reads '/copy/text' with 4 bytes"),
                      HasSubstr("rank 0 reads '/disk/text' with 3 bytes"),
                      HasSubstr("the hash 44bc2cf5ad770999"), HasSubstr("Copy the same text")));
    world.barrier().wait();
  });
}

TEST(SameText, ATrainingOnTwoTextsEndsBeforeItsFirstStep) {
  const ultra::test::TemporaryFolder folder;
  ultra::test::quietly([&] {
    run_ranks(2, [&](Communicator& world) {
      const std::string own(1000, world.rank() == 0 ? 'a' : 'b');  // as long, another one
      TrainOptions options = ultra::test::short_run();
      options.data = folder.write("text of " + std::to_string(world.rank()), own);
      options.metrics = folder.path("metrics.jsonl");
      const auto never = [](const StepPlan&, const ModelScope&) { FAIL() << "a step was made"; };
      EXPECT_THAT(
          ultra::test::message_of<ConfigError>([&] {
            static_cast<void>(ultra::test::train_replicated(options, world,
                                                            ultra::test::before_each_step(never)));
          }),
          AllOf(HasSubstr("rank 1 reads"), HasSubstr("text of 1'"), HasSubstr("rank 0 reads")));
    });
  });
  EXPECT_THAT(folder.names(), testing::Not(testing::Contains(HasSubstr("metrics"))));
}

/// A text of a length that differs from rank to rank, with every kind of byte.
std::string text_of(int rank, std::size_t factor) {
  std::string text;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank) * factor; ++i) {
    text += static_cast<char>(i * 31 + static_cast<std::size_t>(rank));
  }
  return text;
}

TEST(TextMessages, GatherAllTextsOnRankZeroInOrder) {
  for (const int size : {1, 2, 3, 5}) {
    for (const std::size_t factor : {1U, 3U, 4U, 1000U}) {
      run_ranks(size, [&](Communicator& world) {
        const std::vector<std::string> texts = gather_texts(world, text_of(world.rank(), factor));
        if (world.rank() != 0) {
          EXPECT_TRUE(texts.empty());
          return;
        }
        ASSERT_EQ(texts.size(), static_cast<std::size_t>(size));
        for (int rank = 0; rank < size; ++rank) {
          EXPECT_EQ(texts[static_cast<std::size_t>(rank)], text_of(rank, factor));
        }
      });
    }
  }
}

}  // namespace
}  // namespace ultra::train
