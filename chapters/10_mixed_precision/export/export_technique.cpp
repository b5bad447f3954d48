#include "chapters/10_mixed_precision/export/export_technique.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"
#include "chapters/04_zero/checkpoints/checkpoint_folder.hpp"
#include "chapters/04_zero/checkpoints/durable_files.hpp"
#include "chapters/04_zero/checkpoints/trained_mixture.hpp"
#include "chapters/04_zero/checkpoints/training_record.hpp"
#include "chapters/10_mixed_precision/fp8/fp8_linear.hpp"
#include "common/base/errors.hpp"
#include "common/base/units.hpp"
#include "common/checkpoint/files/file_layer.hpp"
#include "common/checkpoint/json_file.hpp"
#include "common/checkpoint/llama_folder.hpp"
#include "common/checkpoint/models/config_json.hpp"
#include "common/checkpoint/safetensors/convert.hpp"
#include "common/checkpoint/safetensors/safetensors.hpp"
#include "common/comm/engine/tensor_bytes.hpp"
#include "common/tensor/dtype.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::mixed_precision {
namespace {

namespace fs = std::filesystem;
using checkpoint::FileLayer;
using checkpoint::SafetensorsHeader;
using checkpoint::SafetensorsReader;
using checkpoint::StoredTensor;

/// What an export has written.
struct ExportedWeights {
  std::filesystem::path from;  ///< the model's folder
  std::size_t tensors = 0;     ///< in model.safetensors
  std::size_t bytes = 0;       ///< of that file
};

/// In the names of a mixture's tensors.
constexpr std::string_view kOfAMixture = ".experts.";

fs::path model_folder(FileLayer& files, const fs::path& from) {
  if (files.exists(from / zero::kConfigFile) && files.exists(from / zero::kWeightsFile))
    return from;
  if (files.exists(from)) {
    const zero::CheckpointFolder folder(files, from);
    const std::vector<std::size_t> steps = folder.steps();
    if (!steps.empty()) return folder.checkpoint(steps.back());
  }
  throw FileError(fmt::format(
      "--export {}: there is no {} with a {}, and no checkpoint. Give the folder that --checkpoint "
      "had, or one that it holds.",
      from.string(), zero::kConfigFile, zero::kWeightsFile));
}

bool is_exported(const StoredTensor& tensor) { return !tensor.name.ends_with(kHistorySuffix); }

SafetensorsHeader header_for(const SafetensorsReader& weights, DType dtype) {
  std::vector<checkpoint::TensorSpec> specs;
  for (const StoredTensor& tensor : weights.tensors()) {
    if (!is_exported(tensor)) continue;
    const bool converted = checkpoint::is_converted(tensor.type);
    specs.push_back({.name = tensor.name,
                     .type = converted ? checkpoint::stored_type_for(dtype) : tensor.type,
                     .shape = tensor.shape});
  }
  return checkpoint::make_header(specs, {{"format", "pt"}});
}

std::vector<std::byte> converted(const SafetensorsReader& weights, const StoredTensor& tensor,
                                 DType dtype) {
  std::vector<std::byte> bytes(tensor.bytes.size());
  weights.read_bytes(tensor, 0, bytes);
  if (!checkpoint::is_converted(tensor.type)) return bytes;
  const Tensor values = Tensor::empty(Device::cpu(), {tensor.numel()}, dtype);
  checkpoint::convert(bytes, tensor.type, values);
  const std::span<const std::byte> half = comm::bytes_of(values);
  return {half.begin(), half.end()};
}

void write(FileLayer& files, const fs::path& path, std::span<const std::byte> bytes) {
  files.create(path)->close();
  const std::vector<zero::FilePart> parts = {{.offset = 0, .bytes = bytes}};
  zero::write_durably(files, path, parts);
}

void write_text(FileLayer& files, const fs::path& path, const std::string& text) {
  write(files, path, std::as_bytes(std::span(text)));
}

ExportedWeights write_weights(FileLayer& files, const fs::path& from, const fs::path& to,
                              DType dtype) {
  const SafetensorsReader weights(files, from / zero::kWeightsFile);
  const SafetensorsHeader header = header_for(weights, dtype);
  const fs::path path = to / zero::kWeightsFile;
  write(files, path, header.to_bytes());
  for (const StoredTensor& tensor : weights.tensors()) {
    if (!is_exported(tensor)) continue;
    const std::vector<std::byte> bytes = converted(weights, tensor, dtype);
    const std::size_t offset = header.offset_of(*header.find(tensor.name), 0);
    const std::vector<zero::FilePart> parts = {{.offset = offset, .bytes = bytes}};
    zero::write_durably(files, path, parts);
  }
  return {.from = from, .tensors = header.tensors().size(), .bytes = header.file_size()};
}

bool has_experts(FileLayer& files, const fs::path& model) {
  const SafetensorsReader weights(files, model / zero::kWeightsFile);
  return std::ranges::any_of(weights.tensors(), [](const StoredTensor& tensor) {
    return tensor.name.find(kOfAMixture) != std::string::npos;
  });
}

[[noreturn]] void refuse_mixture(const fs::path& model, const std::string& why) {
  throw FileError(fmt::format(
      "--export: '{}' holds a mixture of experts that Hugging Face's programs would not "
      "compute as this one does: {}. What they have are --router softmax, --top-k "
      "2 or more, --balance aux or none, without --shared-experts, "
      "--capacity-factor and --qkv-bias. Train such a mixture, or go on with this program: --init "
      "takes the folder as it is.",
      model.string(), why));
}

/// A checkpoint says in training.json what its mixture is; an earlier program wrote the config.json of
/// a Llama beside it.
std::string config_of_mixture(FileLayer& files, const fs::path& model, const std::string& text,
                              const std::string& path) {
  const fs::path record = model / zero::kRecordFile;
  if (!files.exists(record)) {
    const auto stored = checkpoint::parse_mixture(text, path);
    if (stored && stored->is_published) return text;
    refuse_mixture(model, fmt::format("{} names no published mixture, and there is no {}",
                                      zero::kConfigFile, zero::kRecordFile));
  }
  const auto trained =
      zero::parse_record(checkpoint::read_text(files, record), record.string()).identity;
  const auto mixture = zero::mixture_of(trained.flags);
  if (!mixture) refuse_mixture(model, fmt::format("{} knows no experts", zero::kRecordFile));
  if (!mixture->unlike_published.empty()) refuse_mixture(model, mixture->unlike_published);
  const std::string config = checkpoint::config_with_mixture(text, *mixture, path);
  if (checkpoint::parse_mixture(config, path)->is_published) return config;
  refuse_mixture(model, "its queries, keys and values have biases (--qkv-bias)");
}

/// What other programs read of the model.
std::string exported_config(FileLayer& files, const fs::path& model, DType dtype) {
  const fs::path config = model / zero::kConfigFile;
  std::string text = checkpoint::config_with_dtype(
      checkpoint::read_text(files, config, checkpoint::FileOf::kModel), dtype, config.string());
  if (!has_experts(files, model)) return text;
  return config_of_mixture(files, model, text, config.string());
}

/// Writes all files of a model's folder.
ExportedWeights write_model(FileLayer& files, const fs::path& model, const fs::path& to,
                            DType dtype) {
  const std::string config = exported_config(files, model, dtype);
  files.make_folder(to);
  const ExportedWeights written = write_weights(files, model, to, dtype);
  write_text(files, to / zero::kConfigFile, config);
  for (const checkpoint::CompanionFile& file : checkpoint::companion_files(files, model)) {
    write_text(files, to / file.name, file.text);
  }
  return written;
}

/// Writes a saved model into a new folder, each weight rounded to the nearest of `dtype`.
///
/// The folder has config.json with that torch_dtype, model.safetensors, and the tokenizer's files if
/// they are there. It appears in one step when all of it is on the disk. Histories of fp8's scales
/// are left out: they belong to the training.
/// @param from   a model's folder, or one with checkpoints: the newest one.
/// @param to     does not exist yet.
/// @param dtype  kBF16 or kF16.
/// @throws ConfigError when `to` exists; FileError when there is no model, it is damaged, its mixture
/// of experts is none that config.json has a name for, or the disk fails.
/// Memory: one weight twice.
/// Source: Hugging Face transformers, PreTrainedModel.from_pretrained.
ExportedWeights export_half_weights(FileLayer& files, const fs::path& from, const fs::path& to,
                                    DType dtype) {
  ensure(is_half(dtype), "an export in two bytes");
  if (files.exists(to)) {
    throw ConfigError(fmt::format(
        "--export-to {} exists already, and an export writes a new folder. Give another name.",
        to.string()));
  }
  const fs::path model = model_folder(files, from);
  const fs::path whole = fs::absolute(to);
  const fs::path name = whole.has_filename() ? whole : whole.parent_path();
  const fs::path staging = name.parent_path() / fmt::format(".{}", name.filename().string());
  files.remove_all(staging);
  try {
    const ExportedWeights written = write_model(files, model, staging, dtype);
    zero::commit_folder(files, staging, name);
    return written;
  } catch (const Error&) {
    files.remove_all(staging);
    throw;
  }
}

class WeightExport : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override {
    const train::Flags flags(app, "Export");
    flags.add("--export", from_,
              "round the weights of this checkpoint to two bytes, for Hugging Face's programs, and "
              "train nothing");
    flags.add("--export-to", to_, "folder to write them to; must not exist yet");
    flags.add_one_of("--export-dtype", dtype_, {"bf16", "f16"}, "type of the exported weights");
  }

  void validate(train::Setup&) override {
    if (from_.empty() == to_.empty()) return;
    throw ConfigError(from_.empty()
                          ? "--export-to has no meaning without --export DIR, the checkpoint."
                          : "--export needs --export-to DIR, the folder to write to.");
  }

  [[nodiscard]] std::vector<train::Question> questions() const override {
    if (from_.empty()) return {};
    return {{"--export", train::Instead::kAnswer}};
  }

  [[nodiscard]] std::optional<std::string> answer(const train::Setup&) const override {
    if (from_.empty()) return {};
    const ExportedWeights written = export_half_weights(
        checkpoint::posix_files(), from_, to_, dtype_ == "f16" ? DType::kF16 : DType::kBF16);
    return fmt::format("Wrote {} tensors of '{}' in {} to '{}': {}.\n", written.tensors,
                       written.from.string(), dtype_, to_, format_bytes(written.bytes));
  }

 private:
  std::string from_;
  std::string to_;
  std::string dtype_ = "bf16";
};

}  // namespace

std::unique_ptr<train::Technique> weight_export() { return std::make_unique<WeightExport>(); }

}  // namespace ultra::mixed_precision
