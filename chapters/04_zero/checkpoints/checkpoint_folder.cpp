#include "chapters/04_zero/checkpoints/checkpoint_folder.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <iterator>
#include <thread>

#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"
#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/base/text.hpp"
#include "common/checkpoint/files/file_damage.hpp"
#include "common/checkpoint/files/system_failure.hpp"
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

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostHolderBytes = 300;

/// The words of this program's command line.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  if (words.ends_with('\0')) words.pop_back();
  std::ranges::replace(words, '\0', ' ');
  return words;
}

std::string this_process() {
  std::array<char, 256> host = {};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("process {} on {}, since {:%Y-%m-%d %H:%M:%S} UTC: {}", ::getpid(),
                     host.data(), fmt::gmtime(std::time(nullptr)), command_line())
      .substr(0, kMostHolderBytes);
}

/// Says in the file who has the lock. Only messages depend on it: a disk that is full does not
/// matter.
void sign(const checkpoint::Descriptor& file) {
  const std::string text = this_process();
  if (::ftruncate(file.value(), 0) != 0) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(file.value(), text.data(), text.size(), 0);
}

/// Whether a path still leads to an open file: a holder removes it at its end.
bool is_at(const fs::path& path, const checkpoint::Descriptor& file) {
  struct stat open;
  struct stat named;
  if (::fstat(file.value(), &open) != 0 || ::stat(path.c_str(), &named) != 0) return false;
  return open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

/// The locked file; nothing when somebody else has the lock.
std::optional<checkpoint::Descriptor> try_to_lock(const fs::path& path) {
  constexpr mode_t kReadAndWriteForAll = 0666;  // less the user's umask
  for (;;) {
    checkpoint::Descriptor file(checkpoint::uninterrupted(
        [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kReadAndWriteForAll); }));
    if (file.value() < 0) checkpoint::fail_file(errno, path, "made");
    if (checkpoint::uninterrupted([&] { return ::flock(file.value(), LOCK_EX | LOCK_NB); }) != 0) {
      if (errno == EWOULDBLOCK) return std::nullopt;
      checkpoint::fail_file(errno, path, "locked");
    }
    if (is_at(path, file)) return file;
  }
}

/// Who has the lock, as it has said.
std::string holder_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string holder(kMostHolderBytes, '\0');
  file.read(holder.data(), static_cast<std::streamsize>(holder.size()));
  holder.resize(static_cast<std::size_t>(file.gcount()));
  return holder.empty() ? "it does not say which"
                        : checkpoint::shown_text(holder, kMostHolderBytes);
}

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

checkpoint::Descriptor locked_file(const fs::path& folder, const fs::path& path,
                                   std::chrono::milliseconds patience,
                                   const std::function<void(const std::string&)>& say) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  const auto end = Clock::now() + patience;
  for (bool said = false;; said = true) {
    if (auto file = try_to_lock(path)) return std::move(*file);
    if (Clock::now() >= end) {
      throw FileError(fmt::format(
          "checkpoint folder '{}' belongs to another run, which has not ended within {} s: {}. "
          "Wait until it has, or stop it, or give --checkpoint another folder.",
          folder.string(), seconds(patience), holder_of(path)));
    }
    if (!said && say) {
      say(fmt::format("Waits for another run, {} s at most: checkpoint folder '{}' is its: {}",
                      seconds(patience), folder.string(), holder_of(path)));
    }
    throw_if_interrupted();
    std::this_thread::sleep_for(kPause);
  }
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

FolderLock::FolderLock(const fs::path& folder, std::chrono::milliseconds patience,
                       const std::function<void(const std::string&)>& say)
    : path_(folder / ".lock"), file_(locked_file(folder, path_, patience, say)) {
  sign(file_);
}

FolderLock::~FolderLock() {
  ::unlink(path_.c_str());  // while it is locked: whoever waits for this file looks for a new one
}

}  // namespace ultra::zero
