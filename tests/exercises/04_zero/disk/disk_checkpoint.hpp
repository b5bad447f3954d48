#pragma once
/// @file
/// A checkpoint that three ranks write onto a CrashingDisk, and what is found of it there.

#include <filesystem>
#include <map>
#include <set>

#include "chapters/04_zero/checkpoints/durable_files.hpp"
#include "tests/exercises/04_zero/disk/crashing_disk.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero::test {

using Files = std::map<std::string, std::string>;  ///< bytes by name

/// Bytes that a rank writes.
struct RankPart {
  std::string file;
  std::uint64_t offset = 0;
  std::string bytes;
};

/// Files, and who writes what of them.
struct Checkpoint {
  Files files;
  std::set<std::string> sized;               ///< have their length from the beginning
  std::vector<std::vector<RankPart>> ranks;  ///< what each writes, in its order

  [[nodiscard]] std::string str() const {
    std::string all = "a checkpoint with";
    for (const auto& [name, bytes] : files)
      all += fmt::format(" {} of {} bytes,", name, bytes.size());
    return all + fmt::format(" from {} ranks", ranks.size());
  }
};

/// @brief Three files of random bytes, cut into parts that three ranks write in a random order.
inline Checkpoint draw_checkpoint(ultra::test::Random& random) {
  Checkpoint drawn;
  drawn.ranks.resize(3);
  for (const char* name : {"model.safetensors", "parts-0.json", "training.json"}) {
    std::string bytes(random.between(4, 30), ' ');
    for (char& byte : bytes) byte = static_cast<char>('a' + random.between(0, 25));
    drawn.files[name] = bytes;
    if (random.between(0, 1) == 0) drawn.sized.insert(name);
    for (std::size_t begin = 0; begin < bytes.size();) {
      const std::size_t count = random.between(1, bytes.size() - begin);
      drawn.ranks[random.between(0, 2)].push_back({name, begin, bytes.substr(begin, count)});
      begin += count;
      const bool empty_part = random.between(0, 3) == 0;
      if (empty_part) drawn.ranks[random.between(0, 2)].push_back({name, begin, ""});
    }
  }
  for (auto& parts : drawn.ranks) random.shuffle(parts);
  return drawn;
}

inline constexpr const char* kParent = "/checkpoints";
inline constexpr const char* kStaging = "/checkpoints/.unfinished-step-00000200";
inline constexpr const char* kDestination = "/checkpoints/step-00000200";
inline constexpr const char* kOlder = "/checkpoints/step-00000100";
inline constexpr const char* kOlderBytes = "an older checkpoint";

/// The files, empty, in a new folder: rank 0 does this.
inline void make_files(checkpoint::FileLayer& files, const Checkpoint& checkpoint) {
  const std::filesystem::path folder = kStaging;
  files.make_folder(folder);
  for (const auto& [name, bytes] : checkpoint.files) {
    const auto file = files.create(folder / name);
    if (checkpoint.sized.contains(name)) file->resize(bytes.size());
    file->close();
  }
}

/// One call of write_durably for each file.
inline void write_parts(checkpoint::FileLayer& files, const Checkpoint& checkpoint,
                        const std::vector<RankPart>& parts) {
  for (const auto& [name, bytes] : checkpoint.files) {
    std::vector<FilePart> of_file;
    for (const RankPart& part : parts) {
      if (part.file != name) continue;
      of_file.push_back({.offset = part.offset, .bytes = std::as_bytes(std::span(part.bytes))});
    }
    write_durably(files, std::filesystem::path(kStaging) / name, of_file);
  }
}

inline void save(checkpoint::FileLayer& files, const Checkpoint& checkpoint) {
  make_files(files, checkpoint);
  for (const auto& parts : checkpoint.ranks) write_parts(files, checkpoint, parts);
  commit_folder(files, kStaging, kDestination);
}

/// A checkpoint of an earlier step is on the disk for certain.
inline void prepare(CrashingDisk& disk) {
  disk.make_folder(kOlder);
  const std::string bytes = kOlderBytes;
  disk.create(std::filesystem::path(kOlder) / "weights")
      ->write_at(0, std::as_bytes(std::span(bytes)));
  disk.settle();
}

/// What a folder holds; nothing when it is not there.
inline std::optional<Files> files_in(const Tree& tree, const std::string& folder) {
  if (!tree.contains(folder + "/")) return {};
  Files files;
  for (const auto& [path, bytes] : tree) {
    if (path.starts_with(folder + "/") && path != folder + "/") {
      files[path.substr(folder.size() + 1)] = bytes;
    }
  }
  return files;
}

inline std::string shown(std::string bytes) {
  std::replace(bytes.begin(), bytes.end(), '\0', '.');
  return fmt::format("'{}'", bytes);
}

/// The first place where a folder is not what it should be, with the name of the file.
struct Difference {
  std::string file;
  std::string what;
  bool missing = false;
};

inline std::optional<Difference> difference(const Files& found, const Files& expected) {
  for (const auto& [name, bytes] : expected) {
    const auto file = found.find(name);
    if (file == found.end()) return Difference{name, fmt::format("{} is missing", name), true};
    if (file->second != bytes) {
      return Difference{name, fmt::format("{} holds {} ('.' is a zero), expected {}", name,
                                          shown(file->second), shown(bytes))};
    }
  }
  for (const auto& [name, bytes] : found) {
    if (!expected.contains(name)) return Difference{name, fmt::format("{} is there, too", name)};
  }
  return {};
}

/// When a path was asked for something last; -1 when never.
inline std::ptrdiff_t last(const CrashingDisk& disk, Asked asked, const std::string& path) {
  const auto is = [&](const Operation& o) { return o.asked == asked && o.path == path; };
  const std::vector<Operation>& all = disk.operations();
  return all.rend() - std::find_if(all.rbegin(), all.rend(), is) - 1;
}

inline bool synced_parent_before_the_rename(const CrashingDisk& disk) {
  for (const Operation& operation : disk.operations()) {
    if (operation.asked == Asked::kRename) return false;
    if (operation.asked == Asked::kSyncFolder && operation.path == kParent) return true;
  }
  return false;
}

inline constexpr const char* kEmptied =
    "Hint: create() empties a file that is there, and with it what other ranks have written: "
    "open_for_writing() leaves it.";
inline constexpr const char* kNotThere =
    "Hint: every part is written, at its offset, and nothing else of the file changes.";
inline constexpr const char* kOneRename =
    "Hint: rename the folder, once: files that are moved one by one appear one by one.";

inline const char* hint_for_lost_bytes(const CrashingDisk& disk, const std::string& file) {
  const std::string path = fmt::format("{}/{}", kStaging, file);
  const std::ptrdiff_t written = last(disk, Asked::kWrite, path);
  const std::ptrdiff_t synced = last(disk, Asked::kSync, path);
  const auto made = std::ranges::count_if(disk.operations(), [&](const Operation& operation) {
    return operation.asked == Asked::kCreate && operation.path == path;
  });
  if (made > 1) return kEmptied;
  if (synced < 0) {
    return "Hint: what is written waits in memory until sync() of the file: without it the name "
           "may be on the disk and the bytes not.";
  }
  return synced > written
             ? kNotThere
             : "Hint: sync() promises what was written before it: it comes after the last write.";
}

inline const char* hint_for_half_a_checkpoint(const CrashingDisk& disk,
                                              const Difference& difference) {
  if (last(disk, Asked::kMakeFolder, kDestination) >= 0) return kOneRename;
  if (!difference.missing) return hint_for_lost_bytes(disk, difference.file);
  return synced_parent_before_the_rename(disk)
             ? "Hint: sync_folder() promises the names that stand in that folder, no others: those "
               "of the files stand in `staging`."
             : "Hint: the new name of the folder may reach the disk before the names in it: "
               "sync_folder(staging) comes before the rename.";
}

inline const char* hint_for_lost_rename(const CrashingDisk& disk) {
  return synced_parent_before_the_rename(disk)
             ? "Hint: sync_folder() promises the names as they are when it is called: that of the "
               "parent folder comes after the rename."
             : "Hint: the rename waits in memory, too: it changes the folder that holds the name, "
               "so sync_folder(destination.parent_path()) comes after it.";
}

}  // namespace ultra::zero::test
