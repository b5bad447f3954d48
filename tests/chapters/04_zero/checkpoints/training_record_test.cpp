// Covers: chapters/04_zero/checkpoints/json_numbers.hpp

#include "chapters/04_zero/checkpoints/training_record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"

namespace ultra::zero {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::ultra::test::message_of;

TrainingIdentity an_identity() {
  return {.model = {.vocab_size = 256,
                    .hidden_size = 24,
                    .num_layers = 3,
                    .num_heads = 4,
                    .num_kv_heads = 2,
                    .ffn_hidden_size = 40,
                    .max_seq_len = 16},
          .dtype = DType::kF64,
          .seed = std::numeric_limits<std::uint64_t>::max(),
          .global_batch = 12,
          .data = "a text \"with quotes\" and \xc3\xa9",
          .data_bytes = 20586,
          .data_hash = std::numeric_limits<std::uint64_t>::max() - 1};
}

TrainingRecord a_record() {
  return {.identity = an_identity(),
          .steps = {{1, 5.5, 1.25, 1e-3, 1e4}, {2, 4.5, 0.75, 2e-3, 2e4}},
          .optimizer_steps = 2,
          .writers = 4};
}

void expect_same_steps(const std::vector<train::StepMetrics>& actual,
                       const std::vector<train::StepMetrics>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(actual[i].step, expected[i].step);
    EXPECT_EQ(actual[i].loss, expected[i].loss);
    EXPECT_EQ(actual[i].grad_norm, expected[i].grad_norm);
    EXPECT_EQ(actual[i].learning_rate, expected[i].learning_rate);
    EXPECT_EQ(actual[i].tokens_per_second, expected[i].tokens_per_second);
  }
}

/// The message about a record whose JSON has been changed.
std::string refused(const std::function<void(json&)>& change) {
  json changed = json::parse(to_json(a_record()));
  change(changed);
  return message_of<FileError>(
      [&] { static_cast<void>(parse_record(changed.dump(), "some/training.json")); });
}

// Text --------------------------------------------------------------------------------------------

TEST(TrainingRecord, GoesThroughJson) {
  const TrainingRecord record = a_record();
  const TrainingRecord read = parse_record(to_json(record), "path");
  EXPECT_EQ(read.optimizer_steps, 2);
  EXPECT_EQ(read.writers, 4);
  EXPECT_EQ(read.identity.dtype, DType::kF64);
  EXPECT_EQ(read.identity.seed, record.identity.seed);
  EXPECT_EQ(read.identity.global_batch, 12U);
  EXPECT_EQ(read.identity.data, record.identity.data);
  EXPECT_EQ(read.identity.data_bytes, 20586U);
  EXPECT_EQ(read.identity.data_hash, record.identity.data_hash);
  EXPECT_NO_THROW(record.identity.expect_same(read.identity, "folder"));
  EXPECT_EQ(to_json(read), to_json(record));
  expect_same_steps(read.steps, record.steps);
}

class RandomRecord : public ultra::test::RandomTest {};

TEST_F(RandomRecord, KeepsEveryBitOfItsNumbers) {
  TrainingRecord record = a_record();
  record.steps.clear();
  for (std::size_t step = 1; step <= 200; ++step) {
    record.steps.push_back({step, random.normal(), 1 / (random.normal() + 10),
                            1e-300 * random.uniform(1, 2), 1e300 * random.uniform(0, 1)});
  }
  expect_same_steps(parse_record(to_json(record), "path").steps, record.steps);
}

// Damage ------------------------------------------------------------------------------------------

TEST(DamagedRecord, IsRefusedWithThePathAndTheReason) {
  EXPECT_THAT(refused([](json& record) { record["format"] = 2; }),
              AllOf(HasSubstr("'some/training.json' is damaged"), HasSubstr("format is 2")));
  EXPECT_THAT(refused([](json& record) { record["steps"] = json::array(); }),
              HasSubstr("no steps"));
  EXPECT_THAT(refused([](json& record) { record["steps"].erase(0); }),
              HasSubstr("step 1 is missing"));
  EXPECT_THAT(refused([](json& record) { record["writers"] = 0; }), HasSubstr("0 writers"));
  EXPECT_THAT(refused([](json& record) { record["steps"][1][1] = nullptr; }),
              HasSubstr("some/training.json"));
}

TEST(DamagedRecord, EveryMemberIsNeeded) {
  for (const char* key : {"format", "training", "optimizer_steps", "writers", "steps"}) {
    EXPECT_THAT(refused([&](json& record) { record.erase(key); }), HasSubstr(key));
  }
  const json whole = json::parse(to_json(a_record()));
  for (const auto& [key, value] : whole.at("training").items()) {
    EXPECT_THAT(refused([&](json& record) { record["training"].erase(key); }), HasSubstr(key));
    if (value.is_number()) {
      EXPECT_THAT(refused([&](json& record) { record["training"][key] = "text"; }),
                  AnyOf(HasSubstr("type must be number"), HasSubstr("no whole number")));
    }
  }
}

TEST(DamagedRecord, NoJsonIsRefused) {
  const std::string text = to_json(a_record());
  for (std::size_t size = 0; size + 2 < text.size(); size += 7) {
    EXPECT_THAT(message_of<FileError>([&] {
                  static_cast<void>(parse_record(text.substr(0, size), "some/training.json"));
                }),
                AllOf(HasSubstr("'some/training.json' is damaged"), HasSubstr("older checkpoint")));
  }
}

/// A number that does not fit must not become another one.
TEST(DamagedRecord, NumbersThatDoNotFitAreRefused) {
  EXPECT_THAT(refused([](json& record) { record["writers"] = (std::uint64_t{1} << 32U) + 4; }),
              HasSubstr("writers"));
  EXPECT_THAT(refused([](json& record) { record["optimizer_steps"] = -1; }),
              HasSubstr("optimizer_steps"));
  EXPECT_THAT(refused([](json& record) { record["training"]["dtype"] = "f16"; }), HasSubstr("f16"));
}

// Identity ----------------------------------------------------------------------------------------

struct Difference {
  const char* flag;
  std::function<void(TrainingIdentity&)> change;
};

TEST(TrainingIdentity, NamesTheFirstDifferenceAndTheFlag) {
  const std::vector<Difference> differences = {
      {"--layers", [](TrainingIdentity& i) { ++i.model.num_layers; }},
      {"--hidden", [](TrainingIdentity& i) { ++i.model.hidden_size; }},
      {"--heads", [](TrainingIdentity& i) { ++i.model.num_heads; }},
      {"--kv-heads", [](TrainingIdentity& i) { ++i.model.num_kv_heads; }},
      {"--ffn", [](TrainingIdentity& i) { ++i.model.ffn_hidden_size; }},
      {"--seq", [](TrainingIdentity& i) { ++i.model.max_seq_len; }},
      {"--dtype", [](TrainingIdentity& i) { i.dtype = DType::kF32; }},
      {"--seed", [](TrainingIdentity& i) { --i.seed; }},
      {"--global-batch", [](TrainingIdentity& i) { ++i.global_batch; }},
      {"--data", [](TrainingIdentity& i) { ++i.data_bytes; }},
      {"--data", [](TrainingIdentity& i) { ++i.data_hash; }}};
  for (const Difference& difference : differences) {
    TrainingIdentity saved = an_identity();
    difference.change(saved);
    EXPECT_THAT(message_of<ConfigError>([&] { an_identity().expect_same(saved, "the/folder"); }),
                AllOf(HasSubstr("'the/folder' is of another training"),
                      HasSubstr(std::string("Give ") + difference.flag)));
  }
}

TEST(TrainingIdentity, SaysBothValues) {
  TrainingIdentity saved = an_identity();
  saved.model.num_layers = 7;
  EXPECT_THAT(message_of<ConfigError>([&] { an_identity().expect_same(saved, "folder"); }),
              AllOf(HasSubstr("--layers 7"), HasSubstr("this run has 3")));
}

TEST(TrainingIdentity, ThePlaceOfTheTextMayChange) {
  TrainingIdentity saved = an_identity();
  saved.data = "another place";
  EXPECT_NO_THROW(an_identity().expect_same(saved, "folder"));
}

}  // namespace
}  // namespace ultra::zero
