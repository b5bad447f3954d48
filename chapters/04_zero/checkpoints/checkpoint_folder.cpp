#include "chapters/04_zero/checkpoints/checkpoint_folder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::zero {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kStaging = ".unfinished-";
constexpr std::string_view kRemoved = ".removed-";

std::string name_of(std::size_t step) { return fmt::format("{}{:08}", kPrefix, step); }

}  // namespace

std::optional<std::size_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  const auto step = parse_number<std::uint64_t>(std::string_view(name).substr(kPrefix.size()));
  if (!step || name != name_of(*step)) return {};
  return static_cast<std::size_t>(*step);
}

CheckpointFolder::CheckpointFolder(checkpoint::FileLayer& files, const fs::path& folder)
    : files_(files), folder_(folder.lexically_normal()) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();  // "folder/"
}

fs::path CheckpointFolder::checkpoint(std::size_t step) const { return folder_ / name_of(step); }

fs::path CheckpointFolder::staging(std::size_t step) const {
  return folder_ / fmt::format("{}{}", kStaging, name_of(step));
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

void CheckpointFolder::make_durable_folder() {
  std::vector<fs::path> made;
  for (fs::path path = fs::absolute(folder_); !files_.exists(path); path = path.parent_path()) {
    made.push_back(path);
  }
  files_.make_folder(folder_);
  for (const fs::path& path : made) files_.sync_folder(path.parent_path());
}

void CheckpointFolder::prepare() {
  make_durable_folder();
  for (const std::string& name : files_.list(folder_)) {
    if (name.starts_with(kStaging) || name.starts_with(kRemoved)) files_.remove_all(folder_ / name);
  }
  const fs::path probe = folder_ / fmt::format("{}probe", kStaging);
  files_.make_folder(probe);
  files_.remove_all(probe);
}

void CheckpointFolder::keep_newest(std::size_t count) {
  const std::vector<std::size_t> all = steps();
  for (std::size_t i = 0; i + count < all.size(); ++i) {
    const fs::path removed = folder_ / fmt::format("{}{}", kRemoved, name_of(all[i]));
    files_.rename(checkpoint(all[i]), removed);
    files_.sync_folder(folder_);  // or the old name might survive, with files missing
    files_.remove_all(removed);
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
  if (!steps.empty()) return CheckpointFolder(files, folder).checkpoint(steps.back());
  for (const std::string& name : files.list(folder)) {
    if (name.starts_with('.')) continue;
    throw FileError(
        fmt::format("folder '{}' has no checkpoint: found '{}', expected step-00000100 or alike. "
                    "Give --resume the folder that --checkpoint had.",
                    folder.string(), name));
  }
  return {};
}

}  // namespace ultra::zero
