#include "common/train/run/agree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/errors.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace ultra::train
