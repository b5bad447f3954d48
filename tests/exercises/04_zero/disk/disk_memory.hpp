#pragma once
/// @file
/// DiskMemory: files in memory, and what a power failure may leave of them.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/random.hpp"

namespace ultra::zero::test {

/// @brief What may become of a change that nobody has forced to the disk. A name is there or not.
enum class Fate {
  kLost,     ///< it never reached the disk
  kHalf,     ///< the first half of the bytes did
  kZeros,    ///< the file has the length, and zeros
  kGarbage,  ///< the file has the length, and what stood there on the disk before
  kThere,    ///< it is on the disk
};

/// @brief One fate for each change that nobody has forced.
using Fates = std::vector<Fate>;

/// @brief Files and their bytes, by path; the path of a folder ends in '/', and it has no bytes.
using Tree = std::map<std::string, std::string>;

/// @brief Nodes, and the changes of them that wait until somebody forces them to the disk.
///
/// When the power fails, any of the changes that still wait may be on the disk, whole or in part,
/// whatever their order was.
/// Source: Pillai et al. 2014, "All File Systems Are Not Created Equal", OSDI, section 2.
class DiskMemory {
 public:
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
    constexpr int kByChance = 8;
    std::vector<Fates> all;
    for (const Fate names : {Fate::kLost, Fate::kThere}) {
      for (const Fate bytes :
           {Fate::kLost, Fate::kHalf, Fate::kZeros, Fate::kGarbage, Fate::kThere}) {
        Fates fates;
        for (const Change& change : waiting_) {
          fates.push_back(change.names.empty() ? bytes : names);
        }
        all.push_back(fates);
      }
    }
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      all.emplace_back(waiting_.size(), Fate::kLost)[i] = Fate::kThere;
      all.emplace_back(waiting_.size(), Fate::kThere)[i] = Fate::kLost;
    }
    for (int i = 0; i < kByChance; ++i) {
      Fates fates;
      while (fates.size() < waiting_.size()) {
        fates.push_back(random.pick(
            {Fate::kLost, Fate::kHalf, Fate::kZeros, Fate::kGarbage, Fate::kThere, Fate::kThere}));
      }
      all.push_back(fates);
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

 protected:
  enum class Kind { kFile, kFolder };

  struct Node {
    Kind kind = Kind::kFolder;
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

  ~DiskMemory() = default;

  [[nodiscard]] const Node& node_at(std::size_t node) const { return cached_[node]; }

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

  /// Without a name: that is a change of a folder.
  std::size_t add_node(Kind kind) {
    cached_.push_back({.kind = kind});
    forced_.push_back({.kind = kind});
    return cached_.size() - 1;
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

  void force_all() {
    forced_ = cached_;
    waiting_.clear();
  }

 private:
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

  static Tree tree_of(const Nodes& nodes) {
    Tree tree;
    add_to_tree(nodes, 0, "", tree);
    return tree;
  }

  static void add_to_tree(const Nodes& nodes, std::size_t node, const std::string& path,
                          Tree& tree) {
    if (nodes[node].kind == Kind::kFile) {
      tree[path] = nodes[node].bytes;
      return;
    }
    tree[path + "/"] = "";
    for (const auto& [name, child] : nodes[node].names) {
      add_to_tree(nodes, child, path + "/" + name, tree);
    }
  }

  Nodes cached_ = {Node{}};      ///< what programs see; the first is the folder "/"
  Nodes forced_ = {Node{}};      ///< what is on the disk for certain
  std::vector<Change> waiting_;  ///< in the order in which they were made
};

}  // namespace ultra::zero::test
