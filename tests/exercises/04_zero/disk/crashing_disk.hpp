#pragma once
/// @file
/// CrashingDisk: files in memory whose power fails, and a disk that keeps as little as it may.

#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>

#include "common/checkpoint/files/file_layer.hpp"
#include "tests/exercises/04_zero/disk/operation.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero::test {

/// @brief Files and their bytes, by path; the path of a folder ends in '/', and it has no bytes.
using Tree = std::map<std::string, std::string>;

/// @brief A file system in memory, for one thread, whose power can fail before any operation.
///
/// Each write waits until sync() of that file, each change of a name until sync_folder() of the
/// folder that holds it. When the power fails, any of the changes that still wait may be on the disk,
/// whole or in part, whatever their order was. A rename within one folder is there or not; one between
/// two folders is two changes.
/// Source: Pillai et al. 2014, "All File Systems Are Not Created Equal", OSDI, section 2.
class CrashingDisk final : public checkpoint::FileLayer {
 public:
  /// @brief Lets everything reach the disk, and begins to count operations anew.
  void settle() {
    forced_ = cached_;
    waiting_.clear();
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

  /// @brief What programs see while the power is on.
  [[nodiscard]] Tree now() const { return tree_of(cached_); }

  /// @brief What a power failure leaves when the waiting changes have these fates.
  [[nodiscard]] Tree after_power_failure(const Fates& fates) const {
    Nodes disk = forced_;
    for (std::size_t i = 0; i < waiting_.size(); ++i) apply(waiting_[i], fates[i], disk);
    return tree_of(disk);
  }

  /// @brief The extremes for all changes, for the names and the bytes apart, and for each change
  /// alone, and some fates by chance.
  [[nodiscard]] std::vector<Fates> possible_fates(ultra::test::Random& random) const {
    using enum Fate;
    std::vector<Fates> all;
    for (const Fate names : {kLost, kThere}) {
      for (const Fate bytes : {kLost, kHalf, kZeros, kGarbage, kThere}) {
        Fates& fates = all.emplace_back();
        for (const Change& change : waiting_) {
          fates.push_back(change.names.empty() ? bytes : names);
        }
      }
    }
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      all.emplace_back(waiting_.size(), kLost)[i] = kThere;
      all.emplace_back(waiting_.size(), kThere)[i] = kLost;
    }
    for (int by_chance = 0; by_chance < 8; ++by_chance) {
      Fates& fates = all.emplace_back();
      while (fates.size() < waiting_.size()) {
        fates.push_back(random.pick({kLost, kHalf, kZeros, kGarbage, kThere, kThere}));
      }
    }
    return all;
  }

  /// @brief The changes that wait, and their fates, one a line.
  [[nodiscard]] std::string str(const Fates& fates) const {
    constexpr const char* kNames[] = {"lost", "half of it", "zeros", "garbage", "on the disk"};
    std::string all;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      const bool name = !waiting_[i].names.empty() && fates[i] != Fate::kLost;
      const auto fate = static_cast<std::size_t>(name ? Fate::kThere : fates[i]);
      all += fmt::format("\n  {}: {}", waiting_[i].what, kNames[fate]);
    }
    return all.empty() ? " nothing" : all;
  }

  [[nodiscard]] std::unique_ptr<checkpoint::OutputFile> create(
      const std::filesystem::path& path) override {
    const Operation operation = begin_or_fail({Asked::kCreate, path.string()});
    const auto there = find(path);
    if (there) change({.node = *there, .what = operation.str(), .size = 0});
    return std::make_unique<OpenFile>(*this, there ? *there : add(operation, path, false),
                                      path.string());
  }

  [[nodiscard]] std::unique_ptr<checkpoint::OutputFile> open_for_writing(
      const std::filesystem::path& path) override {
    const Operation operation = begin_or_fail({Asked::kOpen, path.string()});
    return std::make_unique<OpenFile>(*this, find_or_refuse(operation, path), path.string());
  }

  [[nodiscard]] std::unique_ptr<checkpoint::InputFile> open_for_reading(
      const std::filesystem::path& path) override {
    throw FileError(fmt::format("{}: a checkpoint that is written is not read.", path.string()));
  }

  void make_folder(const std::filesystem::path& path) override {
    begin_or_fail({Asked::kMakeFolder, path.string()});
    std::filesystem::path way;
    for (const std::filesystem::path& name : clean(path)) {
      way /= name;
      if (!find(way)) add({Asked::kMakeFolder, way.string()}, way, true);
    }
  }

  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    const Operation operation = begin_or_fail({Asked::kRename, from.string(), to.string()});
    const std::size_t node = find_or_refuse(operation, from);
    if (clean(to).string().starts_with(clean(from).string() + "/")) refuse(operation, EINVAL);
    const std::size_t from_folder = find_or_refuse(operation, clean(from).parent_path());
    const std::size_t to_folder = find_or_refuse(operation, clean(to).parent_path());
    const auto there = find(to);
    if (there == node) return;
    if (there && !cached_[*there].names.empty()) refuse(operation, ENOTEMPTY);
    const std::string old_name = clean(from).filename().string();
    const std::string new_name = clean(to).filename().string();
    const std::string what = operation.str();
    if (from_folder == to_folder) {
      change({.node = to_folder, .what = what, .names = {{old_name, {}}, {new_name, node}}});
    } else {
      change({.node = to_folder, .what = what + ", new name", .names = {{new_name, node}}});
      change({.node = from_folder, .what = what + ", old name", .names = {{old_name, {}}}});
    }
  }

  void sync_folder(const std::filesystem::path& path) override {
    const Operation operation = begin_or_fail({Asked::kSyncFolder, path.string()});
    const std::size_t node = find_or_refuse(operation, path);
    if (!cached_[node].is_folder) refuse(operation, ENOTDIR);
    force(node);
  }

  void remove_all(const std::filesystem::path& path) override {
    const Operation operation = begin_or_fail({Asked::kRemove, path.string()});
    if (!find(path)) return;
    change({.node = *find(clean(path).parent_path()),
            .what = operation.str(),
            .names = {{clean(path).filename().string(), {}}}});
  }

  [[nodiscard]] std::vector<std::string> list(const std::filesystem::path& folder) override {
    expect_power();
    std::vector<std::string> names;
    const std::size_t node = find_or_refuse({Asked::kOpen, folder.string()}, folder);
    for (const auto& [name, held] : cached_[node].names) names.push_back(name);
    return names;
  }

  [[nodiscard]] bool exists(const std::filesystem::path& path) override {
    expect_power();
    return find(path).has_value();
  }

 private:
  struct Node {
    bool is_folder = true;
    std::string bytes{};                         ///< of a file
    std::map<std::string, std::size_t> names{};  ///< of a folder: the nodes that it holds
  };
  using Nodes = std::vector<Node>;

  /// Of one node: of a folder's names, of a file's length, or of its bytes.
  struct Change {
    std::size_t node = 0;
    std::string what;                                                         ///< what caused it
    std::vector<std::pair<std::string, std::optional<std::size_t>>> names{};  ///< nothing: erased
    std::optional<std::size_t> size{};
    std::size_t offset = 0;
    std::string bytes{};
  };

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
      const bool fails = begin(operation);
      if (!fails) return disk_.force(node_);
      disk_.drop(node_);
      refuse(operation, EIO);
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

  /// Without a '/' at the end.
  static std::filesystem::path clean(const std::filesystem::path& path) {
    const std::filesystem::path normal = path.lexically_normal();
    return normal.has_filename() ? normal : normal.parent_path();
  }

  [[nodiscard]] std::optional<std::size_t> find(const std::filesystem::path& path) const {
    if (path.empty()) return {};
    std::size_t node = 0;
    for (const std::filesystem::path& name : clean(path).relative_path()) {
      const auto entry = cached_[node].names.find(name.string());
      if (entry == cached_[node].names.end()) return {};
      node = entry->second;
    }
    return node;
  }

  [[nodiscard]] std::size_t find_or_refuse(const Operation& operation,
                                           const std::filesystem::path& path) const {
    const auto node = find(path);
    if (!node) refuse(operation, ENOENT);
    return *node;
  }

  std::size_t add(const Operation& operation, const std::filesystem::path& path, bool is_folder) {
    const std::size_t folder = find_or_refuse(operation, clean(path).parent_path());
    const std::size_t node = cached_.size();
    cached_.push_back({.is_folder = is_folder});
    forced_.push_back({.is_folder = is_folder});
    change({.node = folder,
            .what = operation.str(),
            .names = {{clean(path).filename().string(), node}}});
    return node;
  }

  void change(Change change) {
    apply(change, Fate::kThere, cached_);
    waiting_.push_back(std::move(change));
  }

  void force(std::size_t node) {
    for (const Change& change : waiting_) {
      if (change.node == node) apply(change, Fate::kThere, forced_);
    }
    drop(node);
  }

  void drop(std::size_t node) {
    std::erase_if(waiting_, [&](const Change& change) { return change.node == node; });
  }

  static void apply(const Change& change, Fate fate, Nodes& nodes) {
    if (fate == Fate::kLost) return;
    Node& node = nodes[change.node];
    for (const auto& [name, target] : change.names) {
      node.names.erase(name);
      if (target) node.names.emplace(name, *target);
    }
    if (change.size) node.bytes.resize(*change.size);
    std::string bytes = change.bytes;
    if (fate == Fate::kHalf) bytes.resize(bytes.size() / 2);
    if (fate == Fate::kZeros) bytes.assign(bytes.size(), '\0');
    if (fate == Fate::kGarbage) bytes.assign(bytes.size(), '#');
    if (bytes.empty()) return;
    node.bytes.resize(std::max(node.bytes.size(), change.offset + bytes.size()));
    node.bytes.replace(change.offset, bytes.size(), bytes);
  }

  static Tree tree_of(const Nodes& nodes, std::size_t node = 0, const std::string& path = "") {
    if (!nodes[node].is_folder) return {{path, nodes[node].bytes}};
    Tree tree = {{path + "/", ""}};
    for (const auto& [name, child] : nodes[node].names) {
      tree.merge(tree_of(nodes, child, path + "/" + name));
    }
    return tree;
  }

  Nodes cached_ = {Node{}};      ///< what programs see; the first is the folder "/"
  Nodes forced_ = {Node{}};      ///< what is on the disk for certain
  std::vector<Change> waiting_;  ///< in the order in which they were made
  std::vector<Operation> operations_;
  std::size_t power_ends_ = std::numeric_limits<std::size_t>::max();
  std::size_t fails_ = std::numeric_limits<std::size_t>::max();
  bool off_ = false;
};

}  // namespace ultra::zero::test
