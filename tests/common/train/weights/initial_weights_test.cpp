// Covers: common/train/weights/piece_runs.hpp
#include "common/train/weights/initial_weights.hpp"

#include <nlohmann/json.hpp>

#include "common/checkpoint/models/config_json.hpp"
#include "common/train/weights/piece_runs.hpp"
#include "tests/common/checkpoint/example_config.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::train {
namespace {

using checkpoint::a_model;

class AdoptedModel : public ::testing::Test {
 protected:
  AdoptedModel() { write(a_model()); }

  void write(const nn::ModelConfig& model) const {
    folder.write("config.json", checkpoint::model_config_json(model, DType::kF32));
  }

  [[nodiscard]] TrainOptions parsed(const std::string& flags) const {
    return test::options_of<TrainOptions>("--init " + folder.path() + " " + flags);
  }

  [[nodiscard]] nn::ModelConfig adopted(const std::string& flags) const {
    TrainOptions options = parsed(flags);
    adopt_model(options);
    return options.model;
  }

  [[nodiscard]] std::string refused(const std::string& flags) const {
    return message_of<ConfigError>([&] { static_cast<void>(adopted(flags)); });
  }

  test::TemporaryFolder folder;
};

TEST_F(AdoptedModel, HasTheSizesOfTheFolder) {
  EXPECT_EQ(adopted(""), a_model()) << "its positions are fewer than --seq's default";
  nn::ModelConfig shorter = a_model();
  shorter.max_seq_len = 16;
  EXPECT_EQ(adopted("--seq 16"), shorter);
  nn::ModelConfig longer = a_model();
  longer.max_seq_len = 4096;
  write(longer);
  EXPECT_EQ(adopted("").max_seq_len, 128U) << "--seq's default";
  EXPECT_EQ(adopted("--seq 4096"), longer);
}

TEST_F(AdoptedModel, FlagsMaySayTheSame) {
  EXPECT_EQ(adopted("--layers 3 --hidden 48 --heads 6 --kv-heads 2 --ffn 100 --vocab 300 --seq 77 "
                    "--head-dim 8"),
            a_model());
  nn::ModelConfig tied = a_model();
  tied.tied_embeddings = true;
  write(tied);
  EXPECT_EQ(adopted("--tied-embeddings"), tied);
}

TEST_F(AdoptedModel, AFlagThatContradictsIsRefusedWithBothValues) {
  const std::vector<std::vector<std::string>> rows = {
      {"--layers 4", "--layers is 4", "num_hidden_layers 3"},
      {"--hidden 96", "--hidden is 96", "hidden_size 48"},
      {"--heads 3", "--heads is 3", "num_attention_heads 6"},
      {"--kv-heads 3", "--kv-heads is 3", "num_key_value_heads 2"},
      {"--ffn 99", "--ffn is 99", "intermediate_size 100"},
      {"--vocab 256", "--vocab is 256", "vocab_size 300"},
      {"--seq 78", "--seq is 78", "knows 77 positions"},
      {"--tied-embeddings", "--tied-embeddings is given", "tie_word_embeddings false"},
      {"--head-dim 10", "--head-dim is 10", "have 8 elements (head_dim)"},
      {"--qkv-bias", "--qkv-bias is given", "no biases"},
      {"--qk-norm", "--qk-norm is given", "no norms"},
      {"--window 5", "--window is 5", "sliding_window 0"},
      {"--mtp", "--mtp is given", "num_nextn_predict_layers 0"},
      {"--attention mla", "--attention is mla", "has no latents"}};
  for (const auto& row : rows) {
    EXPECT_THAT(refused(row[0]),
                AllOf(HasSubstr(row[1]), HasSubstr(row[2]), HasSubstr(folder.path())))
        << row[0];
  }
}

// Whoever wants the module of the token after next says so.
TEST_F(AdoptedModel, HasTheModuleOfAFolderWhereTheFlagIsGiven) {
  nn::ModelConfig model = a_model();
  model.mtp = true;
  write(model);
  EXPECT_EQ(adopted("--mtp"), model);
  EXPECT_EQ(adopted(""), a_model());
}

// How latents are computed is the command line's: the folder says how wide they are.
TEST_F(AdoptedModel, LatentsOfAFolderAreComputedInEitherForm) {
  nn::ModelConfig model = a_model();
  model.num_kv_heads = model.num_heads;
  model.norm_epsilon = 1e-6;
  model.latent = {.on = true, .kv_lora_rank = 12, .q_lora_rank = 0};
  write(model);
  EXPECT_EQ(adopted(""), model);
  EXPECT_EQ(adopted("--attention mla"), model);
  model.latent.absorbed = true;
  EXPECT_EQ(adopted("--attention mla-absorbed"), model);
  EXPECT_THAT(refused("--attention gqa"),
              AllOf(HasSubstr("--attention is gqa"), HasSubstr("latents (kv_lora_rank)")));
  EXPECT_THAT(refused("--attention mla --kv-lora-rank 14"),
              AllOf(HasSubstr("latents of 14"), HasSubstr("has latents of 12")));
}

TEST_F(AdoptedModel, AFolderWithoutAModelIsRefused) {
  const test::TemporaryFolder empty;
  TrainOptions options;
  for (const std::string& path : {empty.path("none"), empty.write("file", "text"),
                                  std::string("/dev/null"), std::string(5000, 'x')}) {
    options.init = path;
    EXPECT_THAT(message_of<ConfigError>([&] { adopt_model(options); }),
                AllOf(StartsWith("--init '"), HasSubstr("is no folder")));
  }
  options.init = empty.path();
  EXPECT_THAT(message_of<FileError>([&] { adopt_model(options); }),
              AllOf(HasSubstr(empty.path()), HasSubstr("has no config.json")));
}

// The user has given no flags for these sizes.
TEST_F(AdoptedModel, SizesThatMakeNoModelAreThoseOfTheFile) {
  const auto refusal = [&](const std::function<void(nn::ModelConfig&)>& change) {
    nn::ModelConfig model = a_model();
    change(model);
    write(model);
    return message_of<FileError>([&] { static_cast<void>(adopted("")); });
  };
  EXPECT_THAT(refusal([](auto& m) { m.num_kv_heads = 100'000; }),
              AllOf(HasSubstr("config.json"), HasSubstr(folder.path()),
                    HasSubstr("num_key_value_heads must divide num_attention_heads"),
                    Not(HasSubstr("--kv-heads"))));
  auto heads = nlohmann::json::parse(checkpoint::model_config_json(a_model(), DType::kF32));
  heads["num_attention_heads"] = heads["num_key_value_heads"] = 7;
  heads.erase("head_dim");
  folder.write("config.json", heads.dump());
  EXPECT_THAT(message_of<FileError>([&] { static_cast<void>(adopted("")); }),
              AllOf(HasSubstr("num_attention_heads must divide hidden_size: 48 % 7 = 6"),
                    HasSubstr("or give head_dim"), Not(HasSubstr("--head"))));
  nn::ModelConfig wide = a_model();
  wide.vocab_size = 1'000'000'000'000;
  write(wide);
  TrainOptions options = parsed("");
  adopt_model(options);
  EXPECT_THAT(message_of<ConfigError>([&] { options.validate(); }),
              AllOf(HasSubstr("config.json"), HasSubstr("vocab_size 1000000000000"),
                    Not(HasSubstr("--vocab"))));
}

TEST_F(AdoptedModel, IsDescribedByAllOfItsSizes) {
  std::vector<std::string> texts = {described(a_model())};
  const auto change = [&](const std::function<void(nn::ModelConfig&)>& fn) {
    nn::ModelConfig model = a_model();
    fn(model);
    texts.push_back(described(model));
  };
  change([](auto& m) { ++m.vocab_size; });
  change([](auto& m) { ++m.hidden_size; });
  change([](auto& m) { ++m.num_layers; });
  change([](auto& m) { ++m.num_heads; });
  change([](auto& m) { ++m.num_kv_heads; });
  change([](auto& m) { ++m.ffn_hidden_size; });
  change([](auto& m) { ++m.max_seq_len; });
  change([](auto& m) { m.rope_theta += 1; });
  change([](auto& m) { m.norm_epsilon *= 2; });
  change([](auto& m) { m.tied_embeddings = true; });
  change([](auto& m) { m.mtp = true; });
  std::ranges::sort(texts);
  EXPECT_EQ(std::ranges::adjacent_find(texts), texts.end());
}

TEST(PieceRuns, OfAPaddedShardOfColumnsLeaveItsPaddingOut) {
  const nn::Parameter columns(
      {.name = "w", .global_shape = {3, 8}, .shard = {{0, 3}, {2, 4}}, .initializer = {}},
      Device::cpu(), DType::kF32, 1, nn::Values::kDeferred);
  EXPECT_THAT(runs_of({.parameter = &columns, .elements = {1, 6}}),
              ElementsAre(checkpoint::ElementRun{.global = 3, .local = 0, .count = 1},
                          checkpoint::ElementRun{.global = 10, .local = 1, .count = 2},
                          checkpoint::ElementRun{.global = 18, .local = 3, .count = 2}));
  const nn::Parameter rows({.name = "w",
                            .global_shape = {5, 4},
                            .shard = {{3, 5}, {0, 4}},
                            .initializer = {},
                            .padding = 1},
                           Device::cpu(), DType::kF32, 1, nn::Values::kDeferred);
  EXPECT_THAT(runs_of({.parameter = &rows, .elements = {0, 12}}),
              ElementsAre(checkpoint::ElementRun{.global = 12, .local = 0, .count = 8}));
  EXPECT_THAT(runs_of({.parameter = &rows, .elements = {9, 12}}), IsEmpty());
}

}  // namespace
}  // namespace ultra::train
