#pragma once
/// @file
/// CrashingDisk: files in memory whose power fails, and a disk that keeps as little as it may.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/checkpoint/files/file_layer.hpp"
#include "tests/exercises/04_zero/disk/disk_memory.hpp"

namespace ultra::zero::test {

/// @brief A kind of request.
enum class Asked {
  kCreate,
  kOpen,
  kWrite,
  kResize,
  kSync,
  kClose,
  kMakeFolder,
  kRename,
  kSyncFolder,
  kRemove
};

/// @brief One request.
struct Operation {
  Asked asked = Asked::kCreate;
  std::string path;
  std::string to{};          ///< of kRename
  std::uint64_t offset = 0;  ///< of kWrite
  std::uint64_t bytes = 0;   ///< of kWrite and kResize

  /// @brief As in the source, without the braces and quotes.
  [[nodiscard]] std::string str() const {
    constexpr const char* kFormats[] = {
        "create({0})",        "open_for_writing({0})", "write_at({2}, {3} bytes) of {0}",
        "resize({3}) of {0}", "sync() of {0}",         "close() of {0}",
        "make_folder({0})",   "rename({0}, {1})",      "sync_folder({0})",
        "remove_all({0})"};
    return fmt::format(fmt::runtime(kFormats[static_cast<std::size_t>(asked)]), path, to, offset,
                       bytes);
  }
};

/// @brief Thrown when the power fails, and by whatever is tried after it. No Error: nobody handles
/// it.
struct PowerFailure {};

/// @brief A file system in memory, for one thread, whose power can fail before any operation.
///
/// Each write waits until sync() of that file, each change of a name until sync_folder() of the
/// folder that holds it. A rename within one folder is there or not; one between two folders is two
/// changes.
class CrashingDisk final : public checkpoint::FileLayer, public DiskMemory {
 public:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  /// @brief Lets everything reach the disk, and begins to count operations anew.
  void settle() {
    force_all();
    operations_.clear();
  }

  /// @brief The power fails before the operation of this number, counted from 0.
  void lose_power_before(std::size_t operation) { power_ends_ = operation; }

  /// @brief The operation of this number throws FileError: a write that the disk is full, all
  /// others that it has an error. A sync() that fails has dropped the bytes, as Linux does: the
  /// next one finds nothing to do.
  void fail(std::size_t operation) { fails_ = operation; }

  /// @brief What has been asked for.
  [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }

  // FileLayer -------------------------------------------------------------------------------------

  [[nodiscard]] std::unique_ptr<checkpoint::OutputFile> create(
      const std::filesystem::path& path) override {
    const Operation operation = begin_or_fail({Asked::kCreate, path.string()});
    if (const auto there = find(path)) {
      expect_kind(operation, *there, Kind::kFile);
      change({.node = *there, .what = operation.str(), .size = 0});
      return std::make_unique<OpenFile>(*this, *there, path.string());
    }
    return std::make_unique<OpenFile>(*this, add(operation, path, Kind::kFile), path.string());
  }

  [[nodiscard]] std::unique_ptr<checkpoint::OutputFile> open_for_writing(
      const std::filesystem::path& path) override {
    const Operation operation = begin_or_fail({Asked::kOpen, path.string()});
    const std::size_t node = find_or_refuse(operation, path);
    expect_kind(operation, node, Kind::kFile);
    return std::make_unique<OpenFile>(*this, node, path.string());
  }

  [[nodiscard]] std::unique_ptr<checkpoint::InputFile> open_for_reading(
      const std::filesystem::path& path) override {
    expect_power();
    const Operation operation{Asked::kOpen, path.string()};
    const std::size_t node = find_or_refuse(operation, path);
    expect_kind(operation, node, Kind::kFile);
    return std::make_unique<ReadFile>(node_at(node).bytes);
  }

  void make_folder(const std::filesystem::path& path) override {
    const Operation operation = begin_or_fail({Asked::kMakeFolder, path.string()});
    std::filesystem::path way;
    for (const std::filesystem::path& name : clean(path)) {
      way /= name;
      if (const auto there = find(way)) {
        expect_kind(operation, *there, Kind::kFolder);
      } else {
        add({Asked::kMakeFolder, way.string()}, way, Kind::kFolder);
      }
    }
  }

  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    const Operation operation = begin_or_fail({Asked::kRename, from.string(), to.string()});
    const std::size_t node = find_or_refuse(operation, from);
    if (clean(to).string().starts_with(clean(from).string() + "/")) refuse(operation, EINVAL);
    const std::size_t from_folder = find_or_refuse(operation, clean(from).parent_path());
    const std::size_t to_folder = find_or_refuse(operation, clean(to).parent_path());
    if (const auto there = find(to)) {
      expect_kind(operation, *there, node_at(node).kind);
      if (!node_at(*there).names.empty()) refuse(operation, ENOTEMPTY);
    }
    const std::string old_name = clean(from).filename().string();
    const std::string new_name = clean(to).filename().string();
    if (from_folder == to_folder && old_name == new_name) return;
    if (from_folder == to_folder) {
      change({.node = to_folder,
              .what = operation.str(),
              .names = {{old_name, {}}, {new_name, node}}});
    } else {
      change(
          {.node = to_folder, .what = operation.str() + ", new name", .names = {{new_name, node}}});
      change(
          {.node = from_folder, .what = operation.str() + ", old name", .names = {{old_name, {}}}});
    }
  }

  void sync_folder(const std::filesystem::path& path) override {
    const Operation operation = begin_or_fail({Asked::kSyncFolder, path.string()});
    const std::size_t node = find_or_refuse(operation, path);
    expect_kind(operation, node, Kind::kFolder);
    force(node);
  }

  void remove_all(const std::filesystem::path& path) override {
    const Operation operation = begin_or_fail({Asked::kRemove, path.string()});
    if (find(path)) remove(operation, *find(clean(path).parent_path()), clean(path).filename());
  }

  [[nodiscard]] std::vector<std::string> list(const std::filesystem::path& folder) override {
    expect_power();
    std::vector<std::string> names;
    for (const auto& [name, node] :
         node_at(find_or_refuse({Asked::kOpen, folder.string()}, folder)).names) {
      names.push_back(name);
    }
    return names;
  }

  [[nodiscard]] bool exists(const std::filesystem::path& path) override {
    expect_power();
    return find(path).has_value();
  }

 private:
  class OpenFile final : public checkpoint::OutputFile {
   public:
    OpenFile(CrashingDisk& disk, std::size_t node, std::string path)
        : disk_(disk), node_(node), path_(std::move(path)) {}

    void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
      const Operation operation{Asked::kWrite, path_, {}, offset, bytes.size()};
      const bool fails = begin(operation);
      std::string text;
      for (const std::byte byte : bytes) text += static_cast<char>(byte);
      if (fails) text.resize(text.size() / 2);
      if (!text.empty()) {
        disk_.change({.node = node_, .what = operation.str(), .offset = offset, .bytes = text});
      }
      if (fails) refuse(operation, ENOSPC);
    }

    void resize(std::uint64_t bytes) override {
      const Operation operation{Asked::kResize, path_, {}, 0, bytes};
      if (begin(operation)) refuse(operation, ENOSPC);
      disk_.change({.node = node_, .what = operation.str(), .size = bytes});
    }

    void sync() override {
      const Operation operation{Asked::kSync, path_};
      if (begin(operation)) {
        disk_.drop(node_);
        refuse(operation, EIO);
      }
      disk_.force(node_);
    }

    void close() override {
      if (closed_) return;
      const Operation operation{Asked::kClose, path_};
      const bool fails = begin(operation);
      closed_ = true;
      if (fails) refuse(operation, EIO);
    }

   private:
    bool begin(const Operation& operation) {
      ensure(!closed_, "the file is closed already");
      return disk_.begin(operation);
    }

    CrashingDisk& disk_;
    std::size_t node_;
    std::string path_;
    bool closed_ = false;
  };

  class ReadFile final : public checkpoint::InputFile {
   public:
    explicit ReadFile(std::string bytes) : bytes_(std::move(bytes)) {}
    void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
      if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
        throw FileError("the file ends before");
      }
      std::transform(bytes_.begin() + static_cast<std::ptrdiff_t>(offset),
                     bytes_.begin() + static_cast<std::ptrdiff_t>(offset + out.size()), out.begin(),
                     [](char c) { return static_cast<std::byte>(c); });
    }
    [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }

   private:
    std::string bytes_;
  };

  // Operations ------------------------------------------------------------------------------------

  void expect_power() const {
    if (off_) throw PowerFailure();
  }

  /// Counts an operation; whether it is the one that fails.
  bool begin(const Operation& operation) {
    off_ = off_ || operations_.size() == power_ends_;
    expect_power();
    operations_.push_back(operation);
    return operations_.size() - 1 == fails_;
  }

  Operation begin_or_fail(Operation operation) {
    if (begin(operation)) refuse(operation, EIO);
    return operation;
  }

  [[noreturn]] static void refuse(const Operation& operation, int error) {
    throw FileError(
        fmt::format("{}: {}.", operation.str(), std::generic_category().message(error)));
  }

  void expect_kind(const Operation& operation, std::size_t node, Kind kind) const {
    if (node_at(node).kind != kind) refuse(operation, kind == Kind::kFile ? EISDIR : ENOTDIR);
  }

  // Nodes -----------------------------------------------------------------------------------------

  [[nodiscard]] std::size_t find_or_refuse(const Operation& operation,
                                           const std::filesystem::path& path) const {
    const auto node = find(path);
    if (!node) refuse(operation, ENOENT);
    return *node;
  }

  std::size_t add(const Operation& operation, const std::filesystem::path& path, Kind kind) {
    const std::size_t folder = find_or_refuse(operation, clean(path).parent_path());
    expect_kind(operation, folder, Kind::kFolder);
    const std::size_t node = add_node(kind);
    change({.node = folder,
            .what = operation.str(),
            .names = {{clean(path).filename().string(), node}}});
    return node;
  }

  /// What a folder holds goes before the folder, a name at a time.
  void remove(const Operation& operation, std::size_t folder, const std::string& name) {
    const std::size_t node = node_at(folder).names.at(name);
    const std::map<std::string, std::size_t> held = node_at(node).names;
    for (const auto& [held_name, held_node] : held) remove(operation, node, held_name);
    change({.node = folder,
            .what = fmt::format("{} of {}", operation.str(), name),
            .names = {{name, {}}}});
  }

  std::vector<Operation> operations_;
  std::size_t power_ends_ = kNever;
  std::size_t fails_ = kNever;
  bool off_ = false;
};

}  // namespace ultra::zero::test
