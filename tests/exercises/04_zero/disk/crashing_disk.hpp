#pragma once
/// @file
/// CrashingDisk: files in memory whose power fails, and a disk that keeps as little as it may.

#include <filesystem>
#include <map>

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
/// whatever their order was; a part of a write is as wrong as none of it, so each is there or not. A
/// rename within one folder is one change, one between two folders is two.
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

  /// @brief The operation of this number throws FileError. A sync() that fails has dropped the
  /// bytes, as Linux does: the next one finds nothing to do.
  void fail(std::size_t operation) { fails_ = operation; }

  /// @brief What has been asked for.
  [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }

  /// @brief What programs see while the power is on.
  [[nodiscard]] Tree now() const { return tree_of(cached_); }

  /// @brief What a power failure leaves when the waiting changes have these fates.
  [[nodiscard]] Tree after_power_failure(const Fates& fates) const {
    Nodes disk = forced_;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (fates[i]) apply(waiting_[i], disk);
    }
    return tree_of(disk);
  }

  /// @brief The extremes for all changes, for the names and the bytes apart, and for each change
  /// alone, and some fates by chance.
  [[nodiscard]] std::vector<Fates> possible_fates(ultra::test::Random& random) const {
    std::vector<Fates> all;
    for (const bool names : {false, true}) {
      for (const bool bytes : {false, true}) {
        Fates& fates = all.emplace_back();
        for (const Change& change : waiting_) {
          fates.push_back(change.names.empty() ? bytes : names);
        }
      }
    }
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      all.emplace_back(waiting_.size(), false)[i] = true;
      all.emplace_back(waiting_.size(), true)[i] = false;
    }
    for (int by_chance = 0; by_chance < 8; ++by_chance) {
      Fates& fates = all.emplace_back();
      while (fates.size() < waiting_.size()) fates.push_back(random.between(0, 1) == 1);
    }
    return all;
  }

  /// @brief The changes that wait, and their fates, one a line.
  [[nodiscard]] std::string str(const Fates& fates) const {
    std::string all;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      all += fmt::format("\n  {}: {}", waiting_[i].what, fates[i] ? "on the disk" : "lost");
    }
    return all.empty() ? " nothing" : all;
  }

  [[nodiscard]] std::unique_ptr<checkpoint::OutputFile> create(
      const std::filesystem::path& path) override {
    begin({Asked::kCreate, clean(path)});
    const auto there = find(path);
    if (there) change({.node = *there, .size = 0});
    return std::make_unique<OpenFile>(*this, there ? *there : add(path, false), clean(path));
  }

  [[nodiscard]] std::unique_ptr<checkpoint::OutputFile> open_for_writing(
      const std::filesystem::path& path) override {
    begin({Asked::kOpen, clean(path)});
    return std::make_unique<OpenFile>(*this, find_or_refuse(path), clean(path));
  }

  [[nodiscard]] std::unique_ptr<checkpoint::InputFile> open_for_reading(
      const std::filesystem::path& path) override {
    throw FileError(fmt::format("{}: a checkpoint that is written is not read.", path.string()));
  }

  void make_folder(const std::filesystem::path& path) override {
    begin({Asked::kMakeFolder, clean(path)});
    std::filesystem::path way;
    for (const std::filesystem::path& name : std::filesystem::path(clean(path))) {
      way /= name;
      if (!find(way)) add(way, true);
    }
  }

  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    begin({Asked::kRename, clean(from), clean(to)});
    const std::size_t node = find_or_refuse(from);
    const auto there = find(to);
    if (there == node) return;
    if (clean(to).starts_with(clean(from) + "/")) refuse("a folder does not go into itself");
    if (there && !cached_[*there].names.empty()) refuse("the folder is not empty");
    const auto [from_folder, old_name] = place_of(from);
    const auto [to_folder, new_name] = place_of(to);
    if (from_folder == to_folder) {
      change({.node = to_folder, .names = {{old_name, {}}, {new_name, node}}});
    } else {
      change({.node = to_folder, .what = ", new name", .names = {{new_name, node}}});
      change({.node = from_folder, .what = ", old name", .names = {{old_name, {}}}});
    }
  }

  void sync_folder(const std::filesystem::path& path) override {
    begin({Asked::kSyncFolder, clean(path)});
    const std::size_t node = find_or_refuse(path);
    if (!cached_[node].is_folder) refuse("it is no folder");
    force(node);
  }

  void remove_all(const std::filesystem::path& path) override {
    begin({Asked::kRemove, clean(path)});
    if (!find(path)) return;
    const auto [folder, name] = place_of(path);
    change({.node = folder, .names = {{name, {}}}});
  }

  [[nodiscard]] std::vector<std::string> list(const std::filesystem::path& folder) override {
    expect_power();
    const auto node = find(folder);
    if (!node) throw FileError(fmt::format("list({}): there is none.", folder.string()));
    std::vector<std::string> names;
    for (const auto& [name, held] : cached_[*node].names) names.push_back(name);
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
    std::string what{};  ///< the operation, and which part of it
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
      begin({Asked::kWrite, path_, {}, offset, bytes.size()});
      std::string text;
      for (const std::byte byte : bytes) text += static_cast<char>(byte);
      disk_.change({.node = node_, .offset = offset, .bytes = text});
    }

    void resize(std::uint64_t bytes) override {
      begin({Asked::kResize, path_, {}, 0, bytes});
      disk_.change({.node = node_, .size = bytes});
    }

    void sync() override {
      if (disk_.operations_.size() == disk_.fails_) disk_.drop(node_);
      begin({Asked::kSync, path_});
      disk_.force(node_);
    }

    void close() override {
      if (closed_) return;
      closed_ = true;
      disk_.begin({Asked::kClose, path_});
    }

   private:
    void begin(const Operation& operation) {
      ensure(!closed_, "the file is closed already");
      disk_.begin(operation);
    }

    CrashingDisk& disk_;
    std::size_t node_;
    std::string path_;
    bool closed_ = false;
  };

  void expect_power() const {
    if (off_) throw PowerFailure();
  }

  /// Counts an operation, unless the power has failed; throws when it is the one that fails.
  void begin(const Operation& operation) {
    off_ = off_ || operations_.size() == power_ends_;
    expect_power();
    operations_.push_back(operation);
    if (operations_.size() - 1 == fails_) refuse("the disk has failed");
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw FileError(fmt::format("{}: {}.", operations_.back().str(), reason));
  }

  /// Without a '/' at the end.
  static std::string clean(const std::filesystem::path& path) {
    const std::filesystem::path normal = path.lexically_normal();
    return (normal.has_filename() ? normal : normal.parent_path()).string();
  }

  [[nodiscard]] std::optional<std::size_t> find(const std::filesystem::path& path) const {
    if (path.empty()) return {};
    std::size_t node = 0;
    for (const std::filesystem::path& name : std::filesystem::path(clean(path)).relative_path()) {
      const auto entry = cached_[node].names.find(name.string());
      if (entry == cached_[node].names.end()) return {};
      node = entry->second;
    }
    return node;
  }

  [[nodiscard]] std::size_t find_or_refuse(const std::filesystem::path& path) const {
    const auto node = find(path);
    if (!node) refuse("there is no " + path.string());
    return *node;
  }

  /// The folder that holds a path, and its name there.
  [[nodiscard]] std::pair<std::size_t, std::string> place_of(
      const std::filesystem::path& path) const {
    const std::filesystem::path whole = clean(path);
    return {find_or_refuse(whole.parent_path()), whole.filename().string()};
  }

  std::size_t add(const std::filesystem::path& path, bool is_folder) {
    const auto [folder, name] = place_of(path);
    const std::size_t node = cached_.size();
    cached_.push_back({.is_folder = is_folder});
    forced_.push_back({.is_folder = is_folder});
    change({.node = folder, .names = {{name, node}}});
    return node;
  }

  void change(Change change) {
    change.what = operations_.back().str() + change.what;
    apply(change, cached_);
    waiting_.push_back(std::move(change));
  }

  void force(std::size_t node) {
    for (const Change& change : waiting_) {
      if (change.node == node) apply(change, forced_);
    }
    drop(node);
  }

  void drop(std::size_t node) {
    std::erase_if(waiting_, [&](const Change& change) { return change.node == node; });
  }

  static void apply(const Change& change, Nodes& nodes) {
    Node& node = nodes[change.node];
    for (const auto& [name, target] : change.names) {
      node.names.erase(name);
      if (target) node.names.emplace(name, *target);
    }
    if (change.size) node.bytes.resize(*change.size);
    if (change.bytes.empty()) return;
    node.bytes.resize(std::max(node.bytes.size(), change.offset + change.bytes.size()));
    node.bytes.replace(change.offset, change.bytes.size(), change.bytes);
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
