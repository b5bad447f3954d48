#include "chapters/04_zero/checkpoints/checkpoint_folder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/checkpoint/files/file_damage.hpp"
#include "common/checkpoint/json_file.hpp"
#include "common/checkpoint/models/config_json.hpp"

namespace ultra::zero {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kStaging = ".unfinished-";
constexpr std::string_view kRemoved = ".removed-";

std::string name_of(std::size_t step) { return fmt::format("{}{:08}", kPrefix, step); }

/// "folder" for "folder/".
fs::path without_slash(const fs::path& folder) {
  const fs::path normal = folder.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

/// A checkpoint gets its name with all of its files: somebody has made or changed this one.
[[noreturn]] void report_part(const fs::path& checkpoint) {
  throw FileError(fmt::format(
      "checkpoint '{}' has no file {}: it is a part of a checkpoint, perhaps of a copy that is not "
      "complete, or it is being removed (--keep). Resume another one.",
      checkpoint.string(), kRecordFile));
}

/// The model of a config.json, in words; none when it cannot be read.
std::string described_model(checkpoint::FileLayer& files, const fs::path& config) {
  try {
    const nn::ModelConfig model =
        checkpoint::parse_model_config(checkpoint::read_text(files, config), config.string());
    return fmt::format(" (a Llama of {} layers and hidden size {})", model.num_layers,
                       model.hidden_size);
  } catch (const FileError&) {
    return {};
  }
}

[[noreturn]] void report_model(checkpoint::FileLayer& files, const fs::path& folder) {
  throw FileError(fmt::format(
      "folder '{}' has a model{} and no checkpoint: {}, which says how far its training came, and "
      "the moments of the optimizer are missing. Give --resume the folder that --checkpoint had, "
      "or "
      "start a new training from these weights: --init.",
      folder.string(), described_model(files, folder / kConfigFile), kRecordFile));
}

[[noreturn]] void report_other(const fs::path& folder, const std::string& name) {
  throw FileError(
      fmt::format("folder '{}' has no checkpoint: found {}, expected step-00000100 or alike. "
                  "Give --resume the folder that --checkpoint had.",
                  folder.string(), checkpoint::shown_text(name)));
}

}  // namespace

std::optional<std::size_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  const auto step = parse_number<std::uint64_t>(std::string_view(name).substr(kPrefix.size()));
  if (!step || name != name_of(*step)) return {};
  return static_cast<std::size_t>(*step);
}

CheckpointFolder::CheckpointFolder(checkpoint::FileLayer& files, const fs::path& folder)
    : files_(files), folder_(without_slash(folder)) {}

fs::path CheckpointFolder::checkpoint(std::size_t step) const { return folder_ / name_of(step); }

fs::path CheckpointFolder::staging(std::size_t step, std::string_view run) const {
  return folder_ / fmt::format("{}{}-{}", kStaging, name_of(step), run);
}

fs::path CheckpointFolder::removed(std::string_view name) const {
  return folder_ / fmt::format("{}{}", kRemoved, name);
}

std::vector<std::size_t> CheckpointFolder::steps() const {
  std::vector<std::size_t> steps;
  if (!files_.exists(folder_)) return steps;
  for (const std::string& name : files_.list(folder_)) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void CheckpointFolder::make() {
  std::vector<fs::path> made;
  for (fs::path path = fs::absolute(folder_); !files_.exists(path); path = path.parent_path()) {
    made.push_back(path);
  }
  files_.make_folder(folder_);
  for (const fs::path& path : made) files_.sync_folder(path.parent_path());
}

void CheckpointFolder::prepare() {
  make();
  for (const std::string& name : files_.list(folder_)) {
    if (name.starts_with(kRemoved)) files_.remove_all(folder_ / name);
  }
  for (const std::string& name : files_.list(folder_)) {
    if (!name.starts_with(kStaging)) continue;
    // Under another name first: a rank of a killed run finds no place for one more file.
    files_.rename(folder_ / name, removed(name));
    files_.remove_all(removed(name));
  }
  const fs::path probe = folder_ / fmt::format("{}probe", kStaging);
  files_.make_folder(probe);
  files_.remove_all(probe);
}

void CheckpointFolder::keep_newest(std::size_t count) {
  const std::vector<std::size_t> all = steps();
  for (std::size_t i = 0; i + count < all.size(); ++i) {
    const fs::path old = removed(name_of(all[i]));
    files_.rename(checkpoint(all[i]), old);
    files_.sync_folder(folder_);  // or the old name might survive, with files missing
    files_.remove_all(old);
  }
}

std::optional<fs::path> find_checkpoint(checkpoint::FileLayer& files, const fs::path& folder) {
  if (!files.exists(folder)) {
    throw FileError(fmt::format(
        "checkpoint folder '{}' does not exist (--resume). Give the folder that --checkpoint had.",
        folder.string()));
  }
  if (files.exists(folder / kRecordFile)) return folder;
  const std::vector<std::size_t> steps = CheckpointFolder(files, folder).steps();
  if (!steps.empty()) {
    const fs::path newest = CheckpointFolder(files, folder).checkpoint(steps.back());
    if (!files.exists(newest / kRecordFile)) report_part(newest);
    return newest;
  }
  if (step_of(without_slash(folder).filename().string())) report_part(folder);
  if (files.exists(folder / kConfigFile)) report_model(files, folder);
  for (const std::string& name : files.list(folder)) {
    if (!name.starts_with('.')) report_other(folder, name);
  }
  return {};
}

}  // namespace ultra::zero
