#include "chapters/07_pipeline_parallel/options/pipeline_options.hpp"

#include <variant>

#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

PipelineOptions parse(const std::string& line) {
  return ultra::test::options_of<PipelineOptions>(line);
}

TEST(PipelineOptions, ReadTheirFlags) {
  const PipelineOptions options =
      parse("--pp 4 --schedule interleaved:3 --micro-batches 8 --stage-split measured");
  EXPECT_NO_THROW(options.validate());
  EXPECT_TRUE(options.has_schedule());
  EXPECT_EQ(options.schedule.chunks(), 3U);
  EXPECT_EQ(options.micro_batches, 8U);
  EXPECT_EQ(options.split.rule, StageSplit::Rule::kMeasured);
  EXPECT_TRUE(parse("--schedule afab").has_schedule()) << "of one rank";
  EXPECT_EQ(parse("--pp 2").schedule.str(), "1f1b");
}

TEST(PipelineOptions, NameTheirSchedule) {
  EXPECT_EQ(parse("--pp 2 --schedule search").schedule_name(), "search");
  EXPECT_EQ(parse("--pp 2 --schedule interleaved:3").flags(), "--pp 2 --schedule interleaved:3");
  EXPECT_EQ(parse("--pp 2 --schedule-file my.txt").flags(), "--pp 2 --schedule-file 'my.txt'");
  EXPECT_TRUE(parse("--schedule-file my.txt").has_schedule());
}

TEST(PipelineOptions, RefusalsSayWhatDoesNotFit) {
  ultra::test::expect_refused<PipelineOptions>(
      {{"--pp 0", {"--pp is 0"}},
       {"--pp 5000", {"from 1 to 4096"}},
       {"--micro-batches 0", {"--micro-batches is 0"}},
       {"--schedule some", {"--schedule", "'some'", "1f1b"}},
       {"--stage-split even", {"--stage-split is 'even'", "3,2,3"}},
       {"--stage-split 2,2", {"--stage-split has no meaning without --pp"}},
       {"--pp 2 --search-activations 3", {"--search-activations has no meaning"}},
       {"--pp 2 --schedule afab --schedule-file x", {"Leave one of the two out"}},
       {"--executed-gantt x.json", {"--executed-gantt has no meaning"}}});
}

TEST(PipelineOptions, MicroBatchesAreCutAsManyAsAskedForOrTheNextNumbersAreNamed) {
  for (std::size_t share = 1; share <= 24; ++share) {
    for (std::size_t asked = 1; asked <= 26; ++asked) {
      std::size_t size = 0;
      for (std::size_t s = 1; s <= share; ++s) {
        if ((share + s - 1) / s == asked) size = s;  // the largest that gives so many
      }
      if (size > 0) {
        EXPECT_EQ((share + micro_batch_size(share, asked) - 1) / micro_batch_size(share, asked),
                  asked);
      } else {
        const std::string message = ultra::test::message_of<ConfigError>(
            [&] { static_cast<void>(micro_batch_size(share, asked)); });
        EXPECT_NE(message.find(std::to_string(share) + " sequences of a replica"),
                  std::string::npos)
            << message;
      }
    }
  }
}

TEST(PipelineOptions, TheNumberOfMicroBatchesAndTheirSizeMayBothBeGiven) {
  PipelineOptions options = parse("--pp 2 --micro-batches 4");
  train::TrainOptions train;
  train.global_batch = 16;
  train.micro_batch = 16;
  options.cut_batch(train, 2);
  EXPECT_EQ(train.micro_batch, 2U);
  options.gives_micro_batch = true;
  EXPECT_NO_THROW(options.cut_batch(train, 2));
  ultra::test::expect_parts(
      ultra::test::message_of<ConfigError>([&] { options.cut_batch(train, 1); }),
      {"--micro-batch 2 cuts the 16 sequences of a replica into 8", "--micro-batches is 4"});
}

TEST(PipelineOptions, AMicroBatchMustDivideTheGlobalBatch) {
  const PipelineOptions options = parse("--pp 2 --micro-batches 3");
  train::TrainOptions train;
  train.global_batch = 16;
  ultra::test::expect_parts(
      ultra::test::message_of<ConfigError>([&] { options.cut_batch(train, 1); }),
      {"--micro-batches 3", "16 % 6 = 4"});
}

}  // namespace
}  // namespace ultra::pipeline_parallel
