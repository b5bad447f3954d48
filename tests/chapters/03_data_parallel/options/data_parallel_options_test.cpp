// Covers: chapters/03_data_parallel/options/micro_batch_sizes.hpp

#include "chapters/03_data_parallel/options/data_parallel_options.hpp"

#include "chapters/03_data_parallel/options/micro_batch_sizes.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

DataParallelOptions parse(const std::string& line) {
  return test::options_of<DataParallelOptions>(line);
}

/// The call throws a ConfigError with all parts in its message.
template <class Call>
void expect_refused(const Call& call, const test::Words& parts) {
  test::expect_parts(test::message_of<ConfigError>(call), parts);
}

/// Ranks that another technique asks for.
class OtherRanks : public train::Technique {
 public:
  explicit OtherRanks(std::size_t tp) : tp_(tp) {}
  std::optional<Axis> axis() const override {
    return Axis{.name = "tp", .size = tp_, .flag = "--tp " + std::to_string(tp_)};
  }

 private:
  std::size_t tp_;
};

/// A setup with so many --ranks, beside those that the other asks for.
train::Setup setup_with(std::optional<std::size_t> ranks, std::size_t tp) {
  train::Setup setup;
  setup.comm.ranks = ranks;
  setup.comm.launched = {};
  setup.techniques.push_back(std::make_unique<OtherRanks>(tp));
  return setup;
}

TEST(DataParallelOptions, DpAsksForItsRanks) {
  struct Case {
    std::string flags;
    std::optional<std::size_t> ranks;
    std::size_t tp;
    std::optional<std::size_t> resolved;
    int replicas;
  };
  for (const Case& c :
       {Case{"--dp 3", std::nullopt, 1, 3, 3}, Case{"", 4, 1, 4, 4},  // all ranks are replicas
        Case{"--dp 2", std::nullopt, 4, 8, 2}, Case{"", std::nullopt, 4, 4, 1}}) {
    SCOPED_TRACE(c.flags);
    train::Setup setup = setup_with(c.ranks, c.tp);
    parse(c.flags).resolve_ranks(setup);
    EXPECT_EQ(setup.comm.ranks, c.resolved);
    EXPECT_EQ(setup.replicas(), c.replicas);
  }
}

TEST(DataParallelOptions, RanksThatSaySomethingElseAreRefused) {
  train::Setup split = setup_with(6, 4);
  expect_refused([&] { static_cast<void>(split.replicas()); },
                 {"6 ranks are no whole replicas of 4", "6 % 4 = 2"});
  expect_refused([&] { parse("--dp 2").resolve_ranks(split); },
                 {"--dp 2 and --tp 4: 8 ranks", "--ranks is 6"});
}

TEST(MicroBatchSizes, AddUpToTheLargestShare) {
  train::TrainOptions train;
  train.global_batch = 11;
  train.micro_batch = 2;
  const std::vector<std::size_t> sizes = micro_batch_sizes(train, 2);
  EXPECT_EQ(sizes, (std::vector<std::size_t>{2, 2, 2}));
  train.global_batch = 9;
  EXPECT_EQ(micro_batch_sizes(train, 2), (std::vector<std::size_t>{2, 2, 1}));
}

}  // namespace
}  // namespace ultra::data_parallel
