#include "common/checkpoint/llama_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "common/base/errors.hpp"
#include "common/checkpoint/files/file_damage.hpp"
#include "common/checkpoint/json_file.hpp"
#include "common/checkpoint/models/config_json.hpp"
#include "common/checkpoint/safetensors/convert.hpp"
#include "common/nn/initialization.hpp"

namespace ultra::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kOutputMatrix = "lm_head.weight";
constexpr std::size_t kBlock = std::size_t{1} << 20;  // bytes

[[noreturn]] void refuse(const fs::path& folder, const std::string& why) {
  throw FileError(fmt::format("the weights of '{}' do not fit: {}", folder.string(), why));
}

}  // namespace

nn::ModelConfig read_model_config(FileLayer& files, const fs::path& folder) {
  const fs::path path = folder / kConfig;
  if (!files.exists(path)) {
    throw FileError(fmt::format(
        "'{}' has no {}. Give the folder of a model as Hugging Face's save_pretrained() writes it: "
        "{}, and {} or {} with its files.",
        folder.string(), kConfig, kConfig, kWeights, kIndex));
  }
  return parse_model_config(read_text(files, path, FileOf::kModel), path.string());
}

const std::vector<std::string>& companion_names() {
  static const std::vector<std::string> names = {"tokenizer.json",
                                                 "tokenizer_config.json",
                                                 "special_tokens_map.json",
                                                 "tokenizer.model",
                                                 "vocab.json",
                                                 "merges.txt",
                                                 "added_tokens.json",
                                                 "chat_template.jinja",
                                                 "generation_config.json"};
  return names;
}

std::vector<CompanionFile> companion_files(FileLayer& files, const fs::path& folder) {
  std::vector<CompanionFile> found;
  for (const std::string& name : companion_names()) {
    if (!files.exists(folder / name)) continue;
    found.push_back({.name = name, .text = read_text(files, folder / name, FileOf::kModel)});
  }
  return found;
}

LlamaFolder::LlamaFolder(FileLayer& files, const fs::path& folder) : folder_(folder) {
  // Where both are, the one file counts, as it does for transformers.
  if (files.exists(folder / kWeights)) {
    open_one(files, folder / kWeights);
  } else if (files.exists(folder / kIndex)) {
    open_index(files, folder / kIndex);
  } else {
    throw FileError(fmt::format(
        "'{}' has neither {} nor {}. Weights of another format (pytorch_model.bin, .gguf) are not "
        "read: save them with save_pretrained(), which writes safetensors.",
        folder.string(), kWeights, kIndex));
  }
}

void LlamaFolder::open_one(FileLayer& files, const fs::path& path) {
  const auto file = std::make_shared<const SafetensorsReader>(files, path);
  for (const StoredTensor& tensor : file->tensors()) weights_.emplace(tensor.name, file);
}

void LlamaFolder::open_index(FileLayer& files, const fs::path& index) {
  using Names = std::map<std::string, std::string>;
  const auto named = read_json(
      read_text(files, index, FileOf::kModel), index.string(),
      [](const auto& json) {
        return member_in<Names>(json, "weight_map", "an object that names each weight's file");
      },
      FileOf::kModel);
  std::map<std::string, File> opened;
  for (const auto& [weight, name] : named) {
    if (fs::path(name).filename() != name || name.find('\0') != std::string::npos) {
      report_damaged(FileOf::kModel, index.string(),
                     fmt::format("its file {} is not beside it", shown_text(name)));
    }
    File& file = opened[name];
    if (!file) file = std::make_shared<const SafetensorsReader>(files, index.parent_path() / name);
    if (file->find(weight) == nullptr) {
      report_damaged(FileOf::kModel, index.string(),
                     fmt::format("it says that {} is in {}, and that file has none",
                                 shown_text(weight), shown_text(name)));
    }
    weights_.emplace(weight, file);
  }
}

void LlamaFolder::expect_sizes(const nn::ModelConfig& model) const {
  expect_weight(std::string(nn::kEmbeddingName), Shape{model.vocab_size, model.hidden_size});
  for (std::size_t layer = 0; layer < model.num_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const auto found = weights_.lower_bound(prefix);
    if (found != weights_.end() && found->first.starts_with(prefix)) continue;
    refuse(folder_, fmt::format("they have no {}*, and config.json says {} layers "
                                "(num_hidden_layers).",
                                prefix, model.num_layers));
  }
}

void LlamaFolder::expect_model(const nn::ModelConfig& model,
                               const std::vector<nn::NamedShape>& parameters) const {
  std::set<std::string_view> names;
  for (const nn::NamedShape& parameter : parameters) {
    expect_weight(parameter.name, parameter.shape);
    names.insert(parameter.name);
  }
  for (const auto& [name, file] : weights_) {
    if (!names.contains(name)) expect_known(model, name);
  }
}

void LlamaFolder::expect_weight(const std::string& name, const Shape& shape) const {
  const auto found = weights_.find(name);
  if (found == weights_.end()) {
    refuse(folder_, fmt::format("they have no {}, which the model of config.json needs.", name));
  }
  const StoredTensor& stored = *found->second->find(name);
  if (!std::ranges::equal(stored.shape, shape.dims())) {
    refuse(folder_, fmt::format("{} has shape {}, and by config.json it is {}.", name,
                                shown_shape(stored.shape), shape.str()));
  }
  if (!is_converted(stored.type)) {
    refuse(folder_, fmt::format("{} holds elements of {}, and F16, BF16, F32 and F64 are read. "
                                "Save the model in one of these.",
                                name, to_string(stored.type)));
  }
}

/// Of the module of the token after next: all where the model has none, which leaves it away; else the
/// shared table and head, which published files have there again.
bool LlamaFolder::is_of_module(const nn::ModelConfig& model, std::string_view name) const {
  const std::string module = fmt::format("model.layers.{}.", model.num_layers);
  if (!name.starts_with(module) || !weights_.contains(module + "eh_proj.weight")) return false;
  if (!model.mtp) return true;
  const std::string_view part = name.substr(module.size());
  return part == "embed_tokens.weight" || part == "shared_head.head.weight";
}

/// Some tensors follow from others, and stand in files all the same.
void LlamaFolder::expect_known(const nn::ModelConfig& model, std::string_view name) const {
  if (model.tied_embeddings && name == kOutputMatrix) return;
  if (is_of_module(model, name)) return;
  if (name.ends_with(".rotary_emb.inv_freq")) return;
  if (name.ends_with(".bias")) {
    refuse(folder_, fmt::format("they have {}, and the model of config.json has no such bias.",
                                shown_text(name)));
  }
  refuse(folder_,
         fmt::format("they have {}, which the model of config.json does not.", shown_text(name)));
}

void LlamaFolder::read(const std::string& name, std::size_t first_element,
                       const Tensor& out) const {
  const auto found = weights_.find(name);
  ensure(found != weights_.end(), "a weight that expect_model() has seen");
  const SafetensorsReader& file = *found->second;
  const StoredTensor& stored = *file.find(name);
  const std::size_t width = size_of(stored.type);
  std::vector<std::byte> block(std::min(kBlock, out.numel() * width));
  const std::size_t most = block.size() / width;
  for (std::size_t done = 0; done < out.numel(); done += most) {
    const std::size_t count = std::min(most, out.numel() - done);
    const std::span bytes = std::span(block).first(count * width);
    file.read_bytes(stored, (first_element + done) * width, bytes);
    convert(bytes, stored.type, out.view({out.numel()}).slice(0, {done, done + count}));
  }
}

}  // namespace ultra::checkpoint
