#include "chapters/04_zero/checkpoints/training_record.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using nlohmann::json;
using ::testing::AnyOf;

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

TrainingSettings some_settings() {
  return {.steps = 20, .learning_rate = 3e-3, .warmup = 4, .clip_norm = 0.5, .micro_batch = 2};
}

TrainingRecord a_record() {
  return {.identity = an_identity(),
          .settings = some_settings(),
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

TEST(TrainingRecord, GoesThroughJson) {
  const TrainingRecord record = a_record();
  const TrainingRecord read = parse_record(to_json(record), "path");
  EXPECT_EQ(read.optimizer_steps, 2);
  EXPECT_EQ(read.writers, 4);
  EXPECT_EQ(read.identity.data, record.identity.data);
  EXPECT_NO_THROW(record.identity.expect_same(read.identity, "folder"));
  EXPECT_THAT(record.settings.changes_since(read.settings), IsEmpty());
  EXPECT_EQ(to_json(read), to_json(record));
  expect_same_steps(read.steps, record.steps);
}

class RandomRecord : public test::RandomTest {};

TEST_F(RandomRecord, KeepsEveryBitOfItsNumbers) {
  TrainingRecord record = a_record();
  record.steps.clear();
  for (std::size_t step = 1; step <= 200; ++step) {
    record.steps.push_back({step, random.normal(), 1 / (random.normal() + 10),
                            1e-300 * random.uniform(1, 2), 1e300 * random.uniform(0, 1)});
  }
  expect_same_steps(parse_record(to_json(record), "path").steps, record.steps);
}

TEST(DamagedRecord, IsRefusedWithThePathAndTheReason) {
  EXPECT_THAT(refused([](json& record) { record["format"] = "2"; }),
              AllOf(HasSubstr("'some/training.json' is damaged"), HasSubstr("format is \"2\"")));
  EXPECT_THAT(refused([](json& record) { record["steps"] = json::array(); }),
              HasSubstr("no steps"));
  EXPECT_THAT(refused([](json& record) { record["steps"].erase(0); }),
              HasSubstr("step 1 is missing"));
  EXPECT_THAT(refused([](json& record) { record["writers"] = 0; }), HasSubstr("0 writers"));
  for (const json& step : {json(5), json::array(), json{1, 2, 3, 4}, json{1, nullptr, 1, 1, 1},
                           json{1, "x", 1, 1, 1}}) {
    EXPECT_THAT(refused([&](json& record) { record["steps"][0] = step; }),
                HasSubstr("'some/training.json' is damaged"));
  }
}

TEST(DamagedRecord, OfAnotherVersionIsNotCalledDamaged) {
  for (const int format : {1, 3}) {
    EXPECT_THAT(refused([&](json& record) { record["format"] = format; }),
                AllOf(HasSubstr("'some/training.json'"),
                      HasSubstr(fmt::format("its format is {}, this program reads 2", format)),
                      HasSubstr("Another version"), Not(HasSubstr("damaged"))));
  }
}

TEST(DamagedRecord, EveryMemberIsNeeded) {
  for (const char* key :
       {"format", "training", "settings", "optimizer_steps", "writers", "steps"}) {
    EXPECT_THAT(refused([&](json& record) { record.erase(key); }), HasSubstr(key));
  }
  const json whole = json::parse(to_json(a_record()));
  for (const auto& [key, value] : whole.at("settings").items()) {
    EXPECT_THAT(refused([&](json& record) { record["settings"].erase(key); }), HasSubstr(key));
  }
  for (const auto& [key, value] : whole.at("training").items()) {
    EXPECT_THAT(refused([&](json& record) { record["training"].erase(key); }), HasSubstr(key));
    if (value.is_number()) {
      EXPECT_THAT(refused([&](json& record) { record["training"][key] = "text"; }),
                  AnyOf(HasSubstr("stands where a number belongs"), HasSubstr("no whole number")));
    }
  }
}

TEST(DamagedRecord, DeepNestingIsRefused) {
  json deep = 1;
  for (int i = 0; i < 1'000; ++i) deep = json::array({deep});
  for (const char* key : {"format", "training", "settings", "writers", "steps"}) {
    EXPECT_THAT(refused([&](json& record) { record[key] = deep; }), HasSubstr("nested more than"));
  }
}

TEST(DamagedRecord, MessagesAreShortAndPlain) {
  const json much = "\x1b[31m" + std::string(1'000'000, 'x');
  for (const char* key :
       {"format", "training", "settings", "optimizer_steps", "writers", "steps"}) {
    const std::string message = refused([&](json& record) { record[key] = much; });
    EXPECT_LT(message.size(), 500U) << key;
    EXPECT_THAT(message, Not(HasSubstr("\x1b"))) << key;
  }
  const std::string message = refused([&](json& record) { record["training"]["dtype"] = much; });
  EXPECT_THAT(message, AllOf(HasSubstr("the dtype is \"\\u001b[31mxxx"), Not(HasSubstr("\x1b"))));
  EXPECT_LT(message.size(), 500U);
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

struct Difference {
  const char* flag;
  std::function<void(TrainingIdentity&)> change;
};

// Files of models without them have no such members: those of older programs are read as they are.
TEST(TrainingRecord, WhatNotEveryModelHasGoesThroughJson) {
  TrainingRecord record = a_record();
  for (const char* absent :
       {"head_dim", "qkv_bias", "qk_norm", "window", "rope_scaling", "latent"}) {
    EXPECT_FALSE(json::parse(to_json(record)).at("training").contains(absent)) << absent;
  }
  record.identity.model.head_size = 10;
  record.identity.model.qk_norm = true;
  record.identity.model.rope_scaling = {.factor = 32, .original_positions = 8192};
  EXPECT_EQ(parse_record(to_json(record), "path").identity.model, record.identity.model);
  record.identity.model.sliding_window = 5;
  record.identity.model.qk_norm = false;
  record.identity.model.qkv_bias = true;
  EXPECT_EQ(parse_record(to_json(record), "path").identity.model, record.identity.model);
  record.identity.model.latent = {.on = true, .kv_lora_rank = 10, .q_lora_rank = 0};
  EXPECT_EQ(parse_record(to_json(record), "path").identity.model, record.identity.model);
}

TEST(TrainingRecord, SettingsThatNotEveryRunHasGoThroughJsonAndMayChange) {
  TrainingRecord record = a_record();
  const json plain = json::parse(to_json(record)).at("settings");
  for (const char* absent : {"decay", "mtp_weight", "head_z_loss"}) {
    EXPECT_FALSE(plain.contains(absent)) << absent;
  }
  record.settings.decay = 5;
  record.settings.mtp_weight = 0.3;
  record.settings.head_z_loss = 0.5;
  const TrainingSettings read = parse_record(to_json(record), "path").settings;
  TrainingSettings now = read;
  now.decay = 0;
  now.mtp_weight = 0.1;
  now.head_z_loss = 0;
  EXPECT_THAT(now.changes_since(read),
              ElementsAre("Resumed with --decay none; the checkpoint's run had 5.",
                          "Resumed with --mtp-weight 0.1; the checkpoint's run had 0.3.",
                          "Resumed with --head-z-loss 0; the checkpoint's run had 0.5."));
}

TEST(TrainingRecord, TheLossOfTheTokensAfterNextGoesThroughJson) {
  TrainingRecord record = a_record();
  record.steps.front().next_loss = 2.5;
  EXPECT_EQ(parse_record(to_json(record), "path").steps.front().next_loss, 2.5);
  EXPECT_EQ(parse_record(to_json(record), "path").steps.front().validation_loss,
            record.steps.front().validation_loss);
  record.steps.front().validation_loss = 1.25;
  const train::StepMetrics both = parse_record(to_json(record), "path").steps.front();
  EXPECT_EQ(both.next_loss, 2.5);
  EXPECT_EQ(both.validation_loss, 1.25);
}

/// What no flag sets: of another version of the program.
TEST(TrainingIdentity, NamesADifferenceThatHasNoFlag) {
  const std::vector<Difference> differences = {
      {"vocab_size 256, this program's has 300. Give the --init (or --vocab, ",
       [](TrainingIdentity& i) { i.model.vocab_size = 300; }},
      {"rope_theta 10000, this program's has 500000",
       [](TrainingIdentity& i) { i.model.rope_theta = 500000; }},
      {"norm_epsilon 1e-05, this program's has 1e-06",
       [](TrainingIdentity& i) { i.model.norm_epsilon = 1e-6; }},
      {"tied_embeddings false, this program's has true",
       [](TrainingIdentity& i) { i.model.tied_embeddings = true; }},
      {"head_dim ", [](TrainingIdentity& i) { i.model.head_size = 2 * i.model.head_dim(); }},
      {"qkv_bias false, this program's has true",
       [](TrainingIdentity& i) { i.model.qkv_bias = true; }},
      {"qk_norm false, this program's has true",
       [](TrainingIdentity& i) { i.model.qk_norm = true; }},
      {"--window 0, this run has 5", [](TrainingIdentity& i) { i.model.sliding_window = 5; }},
      {"mtp false, this program's has true", [](TrainingIdentity& i) { i.model.mtp = true; }},
      {"latents none, this program's has 64 and 96 for heads of 32 + 16 and 32",
       [](TrainingIdentity& i) { i.model.latent.on = true; }},
      {"rope_scaling none, this program's has 8 (1, 4, 40)", [](TrainingIdentity& i) {
         i.model.rope_scaling = {.factor = 8, .original_positions = 40};
       }}};
  for (const Difference& difference : differences) {
    TrainingIdentity now = an_identity();
    difference.change(now);
    const TrainingRecord saved = parse_record(to_json(a_record()), "path");
    EXPECT_THAT(message_of<ConfigError>([&] { now.expect_same(saved.identity, "the/folder"); }),
                AllOf(HasSubstr("'the/folder' is of another training"), HasSubstr(difference.flag),
                      HasSubstr("leave out --resume")));
  }
}

TEST(TrainingIdentity, ThePlaceOfTheTextMayChange) {
  TrainingIdentity saved = an_identity();
  saved.data = "another place";
  EXPECT_NO_THROW(an_identity().expect_same(saved, "folder"));
}

TEST(TrainingSettings, SayEachChangeInALine) {
  const TrainingSettings now = {
      .steps = 30, .learning_rate = 1e-3, .warmup = 0, .clip_norm = 0, .micro_batch = 4};
  EXPECT_THAT(now.changes_since(some_settings()),
              ElementsAre("Resumed with --steps 30; the checkpoint's run had 20: the learning rate "
                          "now falls until the new last step.",
                          "Resumed with --lr 0.001; the checkpoint's run had 0.003.",
                          "Resumed with --warmup 0; the checkpoint's run had 4.",
                          "Resumed with --clip 0; the checkpoint's run had 0.5.",
                          "Resumed with --micro-batch 4; the checkpoint's run had 2."));
}

TEST(TrainingRecord, FlagsOfTechniquesThatDecideWhatIsTrained) {
  TrainingRecord record = a_record();
  EXPECT_THAT(to_json(record), Not(HasSubstr("variant")));
  record.identity.flags = {{"--experts", "4"}, {"--top-k", "2"}};
  EXPECT_THAT(to_json(record), HasSubstr("\"variant\""));
  const TrainingIdentity saved = parse_record(to_json(record), "some/training.json").identity;
  EXPECT_EQ(saved.flags, record.identity.flags);
  const auto refusal = [&](train::Identity flags) {
    TrainingIdentity now = saved;
    now.flags = std::move(flags);
    return message_of<ConfigError>([&] { now.expect_same(saved, "some/folder"); });
  };
  EXPECT_THAT(refusal({{"--experts", "4"}, {"--top-k", "1"}}),
              HasSubstr("written with --top-k 2, this run has --top-k 1."));
  EXPECT_THAT(refusal({}), HasSubstr("written with --experts 4, this run has no --experts."));
}

}  // namespace
}  // namespace ultra::zero
