// Covers: common/train/report/rank_summary.hpp

#include "common/train/report/metrics.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "common/base/json.hpp"
#include "common/train/report/rank_summary.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::train {
namespace {

using nlohmann::json;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> keys_of(const nlohmann::ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

/// Doubles that few digits do not hold.
const std::vector<double> kAwkward = {1.0 / 3.0,         0.1 + 0.2, 5e-324, 1.7976931348623157e308,
                                      5.545177444479562, 2.0};

MemoryTracker some_memory() {
  MemoryTracker tracker;
  tracker.set_phase("setup");
  tracker.add(MemoryCategory::kParameters, 100);
  tracker.set_phase("step 1: forward, \"block\" 0");
  tracker.add(MemoryCategory::kActivations, 300);
  tracker.remove(MemoryCategory::kActivations, 300);
  tracker.set_phase("step 1: optimizer");
  tracker.add(MemoryCategory::kOptimizer, 200);
  return tracker;
}

class Metrics : public ::testing::Test {
 protected:
  Metrics() {
    options.metrics = path;
    options.model.num_layers = 3;
    options.seed = std::numeric_limits<std::uint64_t>::max();
    options.dtype = DType::kF64;
    options.data = "a \"quoted\" name";
    for (std::size_t i = 0; i < kAwkward.size(); ++i) {
      result.steps.push_back({.step = i + 1,
                              .loss = kAwkward[i],
                              .grad_norm = kAwkward[i] / 3,
                              .learning_rate = kAwkward[i] / 7,
                              .tokens_per_second = 1e5 / 3});
    }
    result.parameters = 123'456;
    result.seconds = 3.0;
    RankSummary rank;
    rank.reserved_bytes = 5000;
    rank.system_allocations = 17;
    rank.memory = some_memory();
    rank.seconds = {
        .compute = 2.5, .idle = 0.0625, .forward_backward = 2.0, .optimizer = 0.5, .total = 4.0};
    rank.communication.busy_seconds = 0.25;
    rank.communication.exposed_seconds = 0.125;
    rank.communication[OpKind::kAllReduce] = {.operations = 3, .sent_bytes = 4096};
    result.ranks.push_back(rank);
  }

  void write() {
    MetricsFile file(options.metrics);
    file.finish(options, {{"recompute", "full"}}, result);
  }

  json summary() { return json::parse(lines_of(ultra::test::read_file(path)).back()); }

  ultra::test::TemporaryFolder folder;
  std::string path = folder.path("metrics.jsonl");
  TrainOptions options;
  TrainResult result;
};

TEST_F(Metrics, OneLinePerStepWithFullPrecision) {
  write();
  const std::vector<std::string> lines = lines_of(ultra::test::read_file(path));
  ASSERT_EQ(lines.size(), kAwkward.size() + 1);
  for (std::size_t i = 0; i < kAwkward.size(); ++i) {
    const auto step = nlohmann::ordered_json::parse(lines[i]);
    EXPECT_EQ(keys_of(step), (std::vector<std::string>{"event", "step", "loss", "grad_norm",
                                                       "learning_rate", "tokens_per_second"}));
    EXPECT_EQ(step.at("event"), "step");
    EXPECT_EQ(step.at("step"), i + 1);
    EXPECT_EQ(step.at("loss").get<double>(), kAwkward[i]) << "bit for bit";
    EXPECT_EQ(step.at("grad_norm").get<double>(), kAwkward[i] / 3);
    EXPECT_EQ(step.at("learning_rate").get<double>(), kAwkward[i] / 7);
    EXPECT_EQ(step.at("tokens_per_second").get<double>(), 1e5 / 3);
    EXPECT_TRUE(lines[i].starts_with(R"({"event":"step","step":)")) << "as the design shows it";
  }
}

TEST_F(Metrics, AValidationStandsWithItsStepAndInTheSummary) {
  options.val_data = "other";
  options.val_every = 2;
  result.steps[1].validation_loss = 1.0 / 3.0;
  result.steps.back().validation_loss = 5e-324;
  write();
  const std::vector<std::string> lines = lines_of(ultra::test::read_file(path));
  EXPECT_EQ(json::parse(lines[1]).at("validation_loss").get<double>(), 1.0 / 3.0);
  EXPECT_FALSE(json::parse(lines[0]).contains("validation_loss"));
  const json s = summary();
  EXPECT_EQ(s.at("validation_losses"), (json{{{"step", 2}, {"loss", 1.0 / 3.0}},
                                             {{"step", kAwkward.size()}, {"loss", 5e-324}}}));
  EXPECT_EQ(s.at("config").at("val_data"), "other");
  EXPECT_EQ(s.at("config").at("val_every"), 2);
  EXPECT_EQ(s.at("config").at("val_batches"), 4);
}

TEST_F(Metrics, TheLastLineIsTheSummary) {
  write();
  const json s = summary();
  EXPECT_EQ(s.at("event"), "summary");
  EXPECT_EQ(s.at("parameters"), 123'456);
  EXPECT_EQ(s.at("seconds"), 3.0);
  ASSERT_EQ(s.at("losses").size(), kAwkward.size());
  for (std::size_t i = 0; i < kAwkward.size(); ++i) EXPECT_EQ(s.at("losses")[i], kAwkward[i]);
  // 6 steps of 16 sequences of 128 tokens in 3 seconds.
  EXPECT_EQ(s.at("tokens_per_second"), 6.0 * 16.0 * 128.0 / 3.0);
}

TEST_F(Metrics, TheSummaryHoldsEveryOption) {
  write();
  const json s = summary();
  const json& config = s.at("config");
  for (const char* name : {"hidden", "heads", "kv_heads", "ffn", "seq", "vocab", "global_batch",
                           "micro_batch", "steps", "lr", "warmup", "clip"}) {
    EXPECT_TRUE(config.at(name).is_number()) << name;
  }
  EXPECT_EQ(config.at("layers"), 3);
  EXPECT_EQ(config.at("seed"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(config.at("dtype"), "f64");
  EXPECT_EQ(config.at("device"), "cpu");
  EXPECT_EQ(config.at("data"), "a \"quoted\" name");
  EXPECT_EQ(config.at("recompute"), "full") << "a chapter's own flags";
}

TEST_F(Metrics, TheSummaryHoldsPeaksTrafficAndSecondsOfEachRank) {
  write();
  const json s = summary();
  ASSERT_EQ(s.at("ranks").size(), 1U);
  const json& rank = s.at("ranks")[0];
  EXPECT_EQ(rank.at("rank"), 0);
  EXPECT_EQ(rank.at("peak_bytes"), (json{{"parameters", 100},
                                         {"gradients", 0},
                                         {"optimizer", 200},
                                         {"activations", 300},
                                         {"communication", 0},
                                         {"other", 0},
                                         {"total", 400}}));
  EXPECT_EQ(rank.at("bytes_at_peak"), (json{{"parameters", 100},
                                            {"gradients", 0},
                                            {"optimizer", 0},
                                            {"activations", 300},
                                            {"communication", 0},
                                            {"other", 0}}));
  EXPECT_EQ(rank.at("peak_phase").at("activations"), "step 1: forward, \"block\" 0");
  EXPECT_EQ(rank.at("peak_phase").at("optimizer"), "step 1: optimizer");
  EXPECT_EQ(rank.at("peak_phase").at("total"), "step 1: forward, \"block\" 0");
  EXPECT_EQ(rank.at("reserved_bytes"), 5000);
  EXPECT_EQ(rank.at("system_allocations"), 17);
  EXPECT_EQ(rank.at("sent_bytes"), (json{{"all_reduce", 4096}}));
  EXPECT_EQ(rank.at("operations"), (json{{"all_reduce", 3}}));
  EXPECT_EQ(rank.at("seconds").at("compute"), 2.5);
  EXPECT_EQ(rank.at("seconds").at("communication"), 0.25);
  EXPECT_EQ(rank.at("seconds").at("exposed_communication"), 0.125);
  EXPECT_EQ(rank.at("seconds").at("idle"), 0.0625);
  EXPECT_EQ(rank.at("seconds").at("total"), 4.0);
}

TEST_F(Metrics, APathThatCannotBeWrittenNamesTheFlag) {
  EXPECT_THAT(ultra::test::message_of<FileError>([&] { MetricsFile(folder.path("no/m")); }),
              AllOf(HasSubstr("--metrics"), HasSubstr("'" + folder.path("no/m") + "'")));
}

/// Every member differs from its default and from the others.
RankSummary some_summary() {
  RankSummary summary{.rank = 3,
                      .memory = some_memory(),
                      .reserved_bytes = std::size_t{1} << 60,
                      .system_allocations = 17,
                      .seconds = {.compute = 1.0 / 3,
                                  .idle = 0.1,
                                  .forward_backward = 0.3,
                                  .optimizer = 1.0 / 7,
                                  .total = 0.7},
                      .communication = {}};
  summary.communication.busy_seconds = 2.0 / 3;
  summary.communication.exposed_seconds = 5e-324;
  summary.counters.add("attention_flops", 1e300);
  summary.counters.add("blocks", 1.0 / 3);
  std::size_t number = 1;
  for (const OpKind kind : kDataOpKinds) {
    summary.communication[kind] = {.operations = number, .sent_bytes = 1000 * number};
    ++number;
  }
  return summary;
}

TEST(RankSummaryJson, ComesBackWithEveryFigure) {
  const RankSummary before = some_summary();
  const std::string text = to_json(before).dump();
  const RankSummary after = rank_summary_from(Json::parse(text));
  EXPECT_EQ(to_json(after).dump(), text);

  EXPECT_EQ(after.seconds.compute, 1.0 / 3) << "to the last bit";
  EXPECT_EQ(after.seconds.forward_backward, 0.3);
  EXPECT_EQ(after.seconds.optimizer, 1.0 / 7);
  EXPECT_EQ(after.communication.busy_seconds, 2.0 / 3);
  EXPECT_EQ(after.communication.exposed_seconds, 5e-324);
  EXPECT_EQ(after.communication.kinds, before.communication.kinds);
  EXPECT_EQ(after.counters.sums(), before.counters.sums());
}

TEST(RankSummaryJson, ListsOnlyOperationsThatTookPlace) {
  RankSummary summary;
  EXPECT_TRUE(to_json(summary).at("sent_bytes").is_object());
  EXPECT_TRUE(to_json(summary).at("sent_bytes").empty());
  summary.communication[OpKind::kAllReduce] = {.operations = 2, .sent_bytes = 0};
  summary.communication[OpKind::kBarrier] = {.operations = 5, .sent_bytes = 5};
  EXPECT_EQ(to_json(summary).at("sent_bytes"), (Json{{"all_reduce", 0}}));
  EXPECT_EQ(to_json(summary).at("operations"), (Json{{"all_reduce", 2}}))
      << "barriers move no data";
}

TEST(RankSummaryJson, SaysWhatIsBesideTheDevice) {
  RankSummary summary;
  EXPECT_FALSE(to_json(summary).contains("offload")) << "nothing is";
  const StorageTraffic traffic{.read_bytes = 1,
                               .written_bytes = 2,
                               .read_seconds = 0.1,
                               .write_seconds = 0.2,
                               .exposed_seconds = 1.0 / 3};
  summary.offload = {.stored_bytes = 7, .optimizer = traffic, .weights = traffic};
  summary.offload.weights.read_bytes = 5;
  const RankSummary after = rank_summary_from(Json::parse(to_json(summary).dump()));
  EXPECT_EQ(after.offload.stored_bytes, 7U);
  EXPECT_EQ(after.offload.optimizer.read_bytes, 1U);
  EXPECT_EQ(after.offload.optimizer.written_bytes, 2U);
  EXPECT_EQ(after.offload.optimizer.read_seconds, 0.1);
  EXPECT_EQ(after.offload.optimizer.write_seconds, 0.2);
  EXPECT_EQ(after.offload.optimizer.exposed_seconds, 1.0 / 3);
  EXPECT_EQ(after.offload.weights.read_bytes, 5U);
  EXPECT_EQ(after.offload.exposed_seconds(), 2.0 / 3);
}

}  // namespace
}  // namespace ultra::train
