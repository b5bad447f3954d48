#pragma once
/// @file
/// Files that fail or wait where a test says so, and trainings that save to them.

#include <filesystem>

#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"
#include "common/checkpoint/files/file_layer.hpp"
#include "common/train/run/text_messages.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero::test {

using namespace ultra::test;

/// @brief What is asked of the file system.
enum class FileCall {
  kCreate,
  kOpen,
  kWrite,
  kResize,
  kSync,
  kClose,
  kRead,
  kMakeFolder,
  kRename,
  kSyncFolder,
  kRemove
};

/// @brief The system's files; a hook is called before each call and may throw, or wait.
class WatchedFiles : public checkpoint::FileLayer {
 public:
  /// Gets the call and its path; of a rename, the new one.
  using Hook = std::function<void(FileCall, const std::filesystem::path&)>;

  explicit WatchedFiles(Hook before) : before_(std::move(before)) {}

  std::unique_ptr<checkpoint::OutputFile> create(const std::filesystem::path& path) override {
    before_(FileCall::kCreate, path);
    return std::make_unique<Output>(files_.create(path), path, before_);
  }
  std::unique_ptr<checkpoint::OutputFile> open_for_writing(
      const std::filesystem::path& path) override {
    before_(FileCall::kOpen, path);
    return std::make_unique<Output>(files_.open_for_writing(path), path, before_);
  }
  std::unique_ptr<checkpoint::InputFile> open_for_reading(
      const std::filesystem::path& path) override {
    before_(FileCall::kRead, path);
    return files_.open_for_reading(path);
  }
  void make_folder(const std::filesystem::path& path) override {
    before_(FileCall::kMakeFolder, path);
    files_.make_folder(path);
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    before_(FileCall::kRename, to);
    files_.rename(from, to);
  }
  void sync_folder(const std::filesystem::path& path) override {
    before_(FileCall::kSyncFolder, path);
    files_.sync_folder(path);
  }
  void remove_all(const std::filesystem::path& path) override {
    before_(FileCall::kRemove, path);
    files_.remove_all(path);
  }
  std::vector<std::string> list(const std::filesystem::path& folder) override {
    return files_.list(folder);
  }
  bool exists(const std::filesystem::path& path) override { return files_.exists(path); }

 private:
  class Output : public checkpoint::OutputFile {
   public:
    Output(std::unique_ptr<checkpoint::OutputFile> file, std::filesystem::path path, Hook before)
        : file_(std::move(file)), path_(std::move(path)), before_(std::move(before)) {}

    void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
      before_(FileCall::kWrite, path_);
      file_->write_at(offset, bytes);
    }
    void resize(std::uint64_t bytes) override {
      before_(FileCall::kResize, path_);
      file_->resize(bytes);
    }
    void sync() override {
      before_(FileCall::kSync, path_);
      file_->sync();
    }
    void close() override {
      before_(FileCall::kClose, path_);
      file_->close();
    }

   private:
    std::unique_ptr<checkpoint::OutputFile> file_;
    std::filesystem::path path_;
    Hook before_;
  };

  checkpoint::FileLayer& files_ = checkpoint::posix_files();
  Hook before_;
};

/// @brief A hook that throws at the n-th (from 1) of these calls whose path has `part` in it.
inline WatchedFiles::Hook fail_at(FileCall call, int n, std::string part, std::string reason) {
  return [=, count = std::make_shared<int>(0)](FileCall made, const std::filesystem::path& path) {
    if (made != call || path.string().find(part) == std::string::npos || ++*count != n) return;
    throw FileError("checkpoint file '" + path.string() + "' cannot be written: " + reason);
  };
}

/// @brief A temporary folder that all ranks know, threads or processes. Made and removed
/// collectively by all processes of a launch.
class SharedFolder {
 public:
  SharedFolder() {
    run_ranks(processes(), [&](Communicator& world) {
      if (world.rank() == 0) folder_.emplace();
      path_ = train::broadcast_text(world, world.rank() == 0 ? folder_->path() : std::string());
    });
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  /// Waits until nobody needs it.
  ~SharedFolder() {
    run_ranks(processes(), [](Communicator& world) { world.barrier().wait(); });
  }

  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }

  /// Names in a folder in it, hidden ones too, sorted.
  [[nodiscard]] std::vector<std::string> names(const std::string& name) const {
    return checkpoint::posix_files().list(path(name));
  }

 private:
  static int processes() { return launched_world_size().value_or(1); }

  std::string path_;
  std::optional<TemporaryFolder> folder_;  // of the process that makes it
};

/// @brief Trains with ZeRO as train_zero does, with checkpoints.
/// @param changes  their `worker` is put around the one that saves and loads.
inline train::TrainResult train_saving(const Communicator& dp, const ZeroCase& c,
                                       const CheckpointOptions& options,
                                       checkpoint::FileLayer& files = checkpoint::posix_files(),
                                       StageChanges changes = {}) {
  changes.worker = [&, change = changes.worker](std::unique_ptr<train::Worker> worker,
                                                const train::TrainerState& trainer) {
    auto saving = with_checkpoints(std::move(worker), trainer, {}, options, files);
    return change ? change(std::move(saving), trainer) : std::move(saving);
  };
  return train_zero(dp, c, changes);
}

/// @brief Options that save to a folder.
inline CheckpointOptions saving_to(const std::string& folder, std::size_t every) {
  CheckpointOptions options;
  options.folder = folder;
  options.save_every = every;
  return options;
}

/// @brief Options that go on from a folder.
inline CheckpointOptions going_on_from(const std::string& folder) {
  CheckpointOptions options;
  options.resume = folder;
  return options;
}

}  // namespace ultra::zero::test
