#include "common/train/cli/command_line.hpp"

#include <CLI/CLI.hpp>

#include "common/comm/run_ranks.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::train {
namespace {

/// What a program with three flags is told.
CommandLine read(const std::string& line, const std::string& program = "trainer") {
  CLI::App app("", program);
  std::size_t seed = 1;
  std::string link;
  std::string metrics;
  app.add_option("--seed", seed)->capture_default_str();
  app.add_option("--link", link);
  app.add_option("--metrics", metrics);
  app.add_flag("--sp");
  const std::vector<std::string> words = ultra::test::words_of(line);
  app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  std::vector<FileFlag> own_files;
  if (!metrics.empty()) own_files.push_back({"--metrics", metrics, FileUse::kWritten});
  return command_line_of(app, own_files);
}

/// What three ranks are told when the last one was started in another way.
void expect_refusal(const CommandLine& others, const CommandLine& last,
                    const ::testing::Matcher<std::string>& message) {
  run_ranks(3, [&](Communicator& world) {
    const CommandLine& own = world.rank() == 2 ? last : others;
    EXPECT_THAT(ultra::test::message_of<ConfigError>([&] { expect_same_command_line(world, own); }),
                message);
    world.barrier().wait();  // all were told, and go on
  });
}

void expect_accepted(const CommandLine& others, const CommandLine& last) {
  run_ranks(3, [&](Communicator& world) {
    expect_same_command_line(world, world.rank() == 2 ? last : others);
  });
}

TEST(CommandLine, AlikeIsAccepted) {
  expect_accepted(read("--seed 5 --link slow --sp"), read("--sp --link slow --seed 5"));
  expect_accepted(read(""), read("--seed 1"));  // the default
}

TEST(CommandLine, OwnFilesMayLieElsewhere) {
  expect_accepted(read("--metrics a"), read("--metrics /other/b"));
  expect_refusal(read("--metrics a"), read(""),
                 AllOf(HasSubstr("rank 2 has no --metrics, rank 0 has --metrics FILE"),
                       HasSubstr("Only the paths of --init, --data, --mask, --val-data,")));
}

TEST(CommandLine, TheFlagThatDiffersIsNamedWithBothValues) {
  expect_refusal(read(""), read("--seed 5"),
                 AllOf(HasSubstr("rank 2 has --seed 5, rank 0 has --seed 1."),
                       HasSubstr("Start every rank with the same flags")));
  expect_refusal(read("--link slow"), read(""),
                 HasSubstr("rank 2 has no --link, rank 0 has --link slow."));
  expect_refusal(read(""), read("--sp"), HasSubstr("rank 2 has --sp, rank 0 has no --sp."));
  expect_refusal(read("--seed 2 --link slow"), read("--seed 3 --link fast"),
                 HasSubstr("rank 2 has --link fast and --seed 3, rank 0 has --link slow and "
                           "--seed 2."));
}

TEST(CommandLine, ALongValueIsShownByItsBeginning) {
  const std::string value(4000, 'x');
  expect_refusal(read(""), read("--link " + value),
                 AllOf(HasSubstr("--link 'xxx"), HasSubstr("4000"), Not(HasSubstr(value))));
}

TEST(CommandLine, AnotherProgramIsNamed) {
  expect_refusal(read("--seed 5"), read("", "server"),
                 HasSubstr("rank 2 runs 'server', rank 0 runs 'trainer'"));
}

TEST(CommandLine, RanksWithOtherFlagsDoNotTrain) {
  ultra::test::quietly([] {
    run_ranks(2, [](Communicator& world) {
      auto setup = ultra::test::setup_of(ultra::test::short_run(), 2,
                                         list_of(ultra::test::plain_training()));
      setup.command_line = read(world.rank() == 0 ? "" : "--seed 2");
      EXPECT_THAT(ultra::test::message_of<ConfigError>(
                      [&] { static_cast<void>(train_with(setup, world)); }),
                  HasSubstr("rank 1 has --seed 2"));
    });
  });
}

}  // namespace
}  // namespace ultra::train
