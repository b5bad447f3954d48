#include "common/checkpoint/llama_folder.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/checkpoint/models/config_json.hpp"
#include "tests/support/files/llama_folder.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

nn::ModelConfig a_small_model(bool tied = false) {
  return {.vocab_size = 30,
          .hidden_size = 8,
          .num_layers = 2,
          .num_heads = 2,
          .num_kv_heads = 1,
          .ffn_hidden_size = 12,
          .max_seq_len = 16,
          .tied_embeddings = tied};
}

std::vector<nn::NamedShape> shapes_of(const nn::ModelConfig& model) {
  nn::DenseFactory factory;
  return nn::named_shapes(model, factory);
}

class LlamaFolders : public test::RandomTest {
 protected:
  std::string write(const test::LlamaFolderSpec& spec) {
    std::filesystem::remove_all(parent.path("model"));
    weights = test::write_llama_folder(parent, "model", spec, random);
    return parent.path("model");
  }

  /// The message about a folder of one model that must have another's weights.
  std::string refused(const nn::ModelConfig& has, const nn::ModelConfig& needs) {
    const LlamaFolder folder(posix_files(), write({.model = has}));
    return message_of<FileError>([&] { folder.expect_model(needs, shapes_of(needs)); });
  }

  std::string not_opened() {
    return message_of<FileError>(
        [&] { static_cast<void>(LlamaFolder(posix_files(), parent.path("model"))); });
  }

  test::TemporaryFolder parent;
  test::LlamaWeights weights;
};

TEST_F(LlamaFolders, OfOneFileOrSeveralAreReadInParts) {
  for (const std::size_t files : {1U, 3U}) {
    for (const StoredType type : {StoredType::kF32, StoredType::kBF16}) {
      const nn::ModelConfig model = a_small_model(files == 3);
      const LlamaFolder folder(posix_files(),
                               write({.model = model, .type = type, .files = files}));
      const auto parameters = shapes_of(model);
      folder.expect_model(model, parameters);
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        const std::size_t first = random.between(0, weights[p].size() - 1);
        const std::size_t count = random.between(1, weights[p].size() - first);
        const Tensor out = Tensor::empty(Device::cpu(), {count}, DType::kF64);
        folder.read(parameters[p].name, first, out);
        const auto begin = weights[p].begin() + static_cast<std::ptrdiff_t>(first);
        EXPECT_EQ(out.to_vector(),
                  std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(count)))
            << parameters[p].name;
      }
    }
  }
}

TEST_F(LlamaFolders, ALongWeightIsReadInBlocks) {
  nn::ModelConfig model = a_small_model();
  model.vocab_size = 60'000;  // 3.84 MB of f64
  const LlamaFolder folder(posix_files(), write({.model = model, .type = StoredType::kF64}));
  const Tensor out = Tensor::empty(Device::cpu(), {60'000 * 8}, DType::kF64);
  folder.read("model.embed_tokens.weight", 0, out);
  EXPECT_EQ(out.to_vector(), weights[0]);
}

TEST_F(LlamaFolders, OfAnotherModelAreRefusedByTheTensorsName) {
  nn::ModelConfig deeper = a_small_model();
  deeper.num_layers = 3;
  EXPECT_THAT(refused(a_small_model(), deeper), HasSubstr("they have no model.layers.2."));
  EXPECT_THAT(refused(deeper, a_small_model()), HasSubstr("they have \"model.layers.2."));
  nn::ModelConfig wider = a_small_model();
  wider.vocab_size = 31;
  EXPECT_THAT(refused(a_small_model(), wider),
              AllOf(HasSubstr("model.embed_tokens.weight has shape [30, 8]"),
                    HasSubstr("by config.json it is [31, 8]")));
  EXPECT_THAT(refused(a_small_model(true), a_small_model(false)),
              HasSubstr("they have no lm_head.weight"));
}

/// What a model of that size would take is never asked for.
TEST_F(LlamaFolders, SizesAreComparedWithoutTheModel) {
  const LlamaFolder folder(posix_files(), write({.model = a_small_model()}));
  EXPECT_NO_THROW(folder.expect_sizes(a_small_model()));
  const auto refused_with = [&](std::size_t nn::ModelConfig::*member) {
    nn::ModelConfig huge = a_small_model();
    huge.*member = 1'000'000'000'000;
    return message_of<FileError>([&] { folder.expect_sizes(huge); });
  };
  EXPECT_THAT(refused_with(&nn::ModelConfig::num_layers),
              AllOf(HasSubstr("they have no model.layers.2.*"),
                    HasSubstr("config.json says 1000000000000 layers (num_hidden_layers)")));
  EXPECT_THAT(refused_with(&nn::ModelConfig::vocab_size),
              HasSubstr("has shape [30, 8], and by config.json it is [1000000000000, 8]"));
  EXPECT_THAT(refused_with(&nn::ModelConfig::hidden_size),
              HasSubstr("has shape [30, 8], and by config.json it is [30, 1000000000000]"));
}

TEST_F(LlamaFolders, ATiedModelsOutputMatrixMayStandInTheFileToo) {
  const LlamaFolder folder(posix_files(), write({.model = a_small_model(false)}));
  EXPECT_NO_THROW(folder.expect_model(a_small_model(true), shapes_of(a_small_model(true))));
}

/// With the module of the token after next: a training takes it, or leaves it out.
TEST_F(LlamaFolders, AModuleForTheTokenAfterNextMayBeLeftOut) {
  nn::ModelConfig with = a_small_model();
  with.mtp = true;
  const LlamaFolder folder(posix_files(), write({.model = with}));
  for (const nn::ModelConfig& model : {with, a_small_model()}) {
    EXPECT_NO_THROW(folder.expect_sizes(model));
    EXPECT_NO_THROW(folder.expect_model(model, shapes_of(model)));
  }
  EXPECT_THAT(refused(a_small_model(), with), HasSubstr("they have no model.layers.2."));
}

std::string file_with(const std::string& name, StoredType type,
                      const nn::ModelConfig& model = a_small_model()) {
  std::vector<TensorSpec> specs = {{.name = name, .type = type, .shape = {1}}};
  for (const nn::NamedShape& parameter : shapes_of(model)) {
    if (parameter.name == name) continue;
    const auto dims = parameter.shape.dims();
    specs.push_back({parameter.name, StoredType::kF32, {dims.begin(), dims.end()}});
  }
  const SafetensorsHeader header = make_header(specs);
  const std::vector<std::byte> bytes = header.to_bytes();
  std::string file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  file.resize(header.file_size());
  return file;
}

/// Published files have the shared table and head there again.
TEST_F(LlamaFolders, TheModulesSharedTableAndHeadAreNotReadAgain) {
  nn::ModelConfig with = a_small_model();
  with.mtp = true;
  const auto expect_read = [&](const std::string& name) {
    parent.write("model/model.safetensors", file_with(name, StoredType::kF32, with));
    const LlamaFolder folder(posix_files(), parent.path("model"));
    folder.expect_model(with, shapes_of(with));
  };
  EXPECT_NO_THROW(expect_read("model.layers.2.embed_tokens.weight"));
  EXPECT_NO_THROW(expect_read("model.layers.2.shared_head.head.weight"));
  EXPECT_THAT(message_of<FileError>([&] { expect_read("model.layers.2.other.weight"); }),
              HasSubstr("they have \"model.layers.2.other.weight\""));
}

TEST_F(LlamaFolders, WhatOurModelLacksIsRefusedByName) {
  const auto expect_ours = [&](const std::string& name) {
    parent.write("model/model.safetensors", file_with(name, StoredType::kF32));
    const LlamaFolder folder(posix_files(), parent.path("model"));
    folder.expect_model(a_small_model(), shapes_of(a_small_model()));
  };
  const auto refused_with = [&](const std::string& name) {
    return message_of<FileError>([&] { expect_ours(name); });
  };
  EXPECT_THAT(refused_with("model.layers.0.self_attn.q_proj.bias"),
              AllOf(HasSubstr("q_proj.bias"), HasSubstr("no such bias")));
  EXPECT_THAT(refused_with("model.layers.0.self_attn.q_norm.weight"),
              AllOf(HasSubstr("q_norm.weight"), HasSubstr("config.json does not")));
  EXPECT_NO_THROW(expect_ours("model.layers.0.self_attn.rotary_emb.inv_freq"))
      << "it follows from rope_theta";
}

TEST_F(LlamaFolders, QuantizedWeightsAreRefused) {
  parent.write("model/model.safetensors", file_with("model.norm.weight", StoredType::kI32));
  const LlamaFolder folder(posix_files(), parent.path("model"));
  std::vector<nn::NamedShape> shapes = {{"model.norm.weight", Shape({1})}};
  EXPECT_THAT(message_of<FileError>([&] { folder.expect_model(a_small_model(), shapes); }),
              AllOf(HasSubstr("holds elements of I32"), HasSubstr("F16, BF16, F32 and F64")));
}

TEST_F(LlamaFolders, WithoutWeightsOrWithABrokenIndexAreRefused) {
  std::filesystem::create_directory(parent.path("model"));
  EXPECT_THAT(not_opened(),
              AllOf(HasSubstr("neither model.safetensors nor"), HasSubstr("save_pretrained()")));
  const std::string folder = write({.model = a_small_model(), .files = 2});
  std::filesystem::remove(folder + "/part-1.safetensors");
  EXPECT_THAT(not_opened(), HasSubstr("part-1.safetensors"));
  const auto index = [&](const nlohmann::json& map) {
    parent.write("model/model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  };
  index({{"model.norm.weight", "../part-0.safetensors"}});
  EXPECT_THAT(not_opened(), HasSubstr("is not beside it"));
  index({{"model.norm.weight", std::string("part-0.safetensors\0x", 20)}});
  EXPECT_THAT(not_opened(), HasSubstr("its file \"part-0.safetensors\\u0000x\" is not beside it"));
  index({{"another.weight", "part-0.safetensors"}});
  EXPECT_THAT(not_opened(), HasSubstr("that file has none"));
  parent.write("model/model.safetensors.index.json", "{}");
  EXPECT_THAT(not_opened(), AllOf(HasSubstr("it has no 'weight_map'. Take another copy"),
                                  Not(HasSubstr("checkpoint"))));
  index(5);
  EXPECT_THAT(not_opened(), HasSubstr("'weight_map' is 5, expected an object"));
}

TEST_F(LlamaFolders, SayTheirSizes) {
  const std::string folder = write({.model = a_small_model(true)});
  EXPECT_EQ(read_model_config(posix_files(), folder), a_small_model(true));
  EXPECT_THAT(message_of<FileError>(
                  [&] { static_cast<void>(read_model_config(posix_files(), parent.path())); }),
              AllOf(HasSubstr("has no config.json"), HasSubstr("save_pretrained()")));
}

TEST_F(LlamaFolders, HaveCompanionsOfTheWeights) {
  const std::string folder = write({.model = a_small_model()});
  EXPECT_THAT(companion_files(posix_files(), folder), IsEmpty());
  parent.write("model/tokenizer.json", "{}");
  parent.write("model/generation_config.json", "{\"a\": 1}");
  parent.write("model/README.md", "no companion");
  const std::vector<CompanionFile> found = companion_files(posix_files(), folder);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].name, "tokenizer.json");
  EXPECT_EQ(found[1].name, "generation_config.json");
  EXPECT_EQ(found[1].text, "{\"a\": 1}");
}

}  // namespace
}  // namespace ultra::checkpoint
