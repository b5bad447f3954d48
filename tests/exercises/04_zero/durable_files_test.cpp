// Contract of exercise 04.7: three ranks write a checkpoint onto a disk whose power fails before
// each operation in turn, and which then keeps of all that was not forced whatever it likes.
#include "chapters/04_zero/checkpoints/durable_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/exercises/04_zero/crashing_disk.hpp"
#include "tests/support/random.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ultra::zero {
namespace {

namespace fs = std::filesystem;
using test::Asked;
using test::CrashingDisk;
using test::Operation;
using test::Tree;

constexpr const char* kEmptied =
    "Hint: create() empties a file that is there, and with it what other ranks have written: "
    "open_for_writing() leaves it.";
constexpr const char* kOffset =
    "Hint: each part says where it stands: write_at(part.offset, part.bytes), in whatever order "
    "the parts are.";
constexpr const char* kNotThere =
    "Hint: every part is written, at its offset, and nothing else of the file changes.";
constexpr const char* kNoSync =
    "Hint: what is written waits in memory until sync() of the file: without it the name may be on "
    "the disk and the bytes not.";
constexpr const char* kSyncTooEarly =
    "Hint: sync() promises what was written before it: it comes after the last write.";
constexpr const char* kNamesFirst =
    "Hint: the new name of the folder may reach the disk before the names in it: "
    "sync_folder(staging) comes before the rename.";
constexpr const char* kWrongFolder =
    "Hint: sync_folder() promises the names that stand in that folder, no others: those of the "
    "files stand in `staging`.";
constexpr const char* kParentNotSynced =
    "Hint: the rename waits in memory, too: it changes the folder that holds the name, so "
    "sync_folder(destination.parent_path()) comes after it.";
constexpr const char* kParentTooEarly =
    "Hint: sync_folder() promises the names as they are when it is called: that of the parent "
    "folder comes after the rename.";
constexpr const char* kOneRename =
    "Hint: rename the folder, once: files that are moved one by one appear one by one.";
constexpr const char* kNotRenamed = "Hint: `destination` is the new name of the folder `staging`.";
constexpr const char* kErrorLost =
    "Hint: whoever calls must know that the disk failed: let the error of the files through.";
constexpr const char* kSyncedAgain =
    "Hint: a sync() that fails may have dropped the bytes, and the next one has nothing to do: let "
    "its error through, do not try again.";
constexpr const char* kNotClosed =
    "Hint: a file system may tell of a failed write as late as in close(), and the destructor "
    "closes without a word: call it, after sync().";

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

/// The files, empty, in a new folder: rank 0 does this.
void make_files(checkpoint::FileLayer& files, const Checkpoint& checkpoint,
                const fs::path& folder) {
  files.make_folder(folder);
  for (const auto& [name, bytes] : checkpoint.files) {
    const auto file = files.create(folder / name);
    if (checkpoint.sized.contains(name)) file->resize(bytes.size());
    file->close();
  }
}

/// One call of write_durably for each file.
void write_parts(checkpoint::FileLayer& files, const Checkpoint& checkpoint,
                 const std::vector<RankPart>& parts, const fs::path& folder) {
  for (const auto& [name, bytes] : checkpoint.files) {
    std::vector<FilePart> of_file;
    for (const RankPart& part : parts) {
      if (part.file != name) continue;
      of_file.push_back({.offset = part.offset, .bytes = std::as_bytes(std::span(part.bytes))});
    }
    write_durably(files, folder / name, of_file);
  }
}

constexpr const char* kParent = "/checkpoints";
constexpr const char* kStaging = "/checkpoints/.unfinished-step-00000200";
constexpr const char* kDestination = "/checkpoints/step-00000200";
constexpr const char* kOlder = "/checkpoints/step-00000100";
constexpr const char* kOlderBytes = "an older checkpoint";

void save(checkpoint::FileLayer& files, const Checkpoint& checkpoint) {
  make_files(files, checkpoint, kStaging);
  for (const auto& parts : checkpoint.ranks) write_parts(files, checkpoint, parts, kStaging);
  commit_folder(files, kStaging, kDestination);
}

/// A checkpoint of an earlier step is on the disk for certain.
void prepare(CrashingDisk& disk) {
  disk.make_folder(kOlder);
  const std::string bytes = kOlderBytes;
  disk.create(fs::path(kOlder) / "weights")->write_at(0, std::as_bytes(std::span(bytes)));
  disk.settle();
}

/// What a folder holds; nothing when it is not there.
std::optional<Files> files_in(const Tree& tree, const std::string& folder) {
  if (!tree.contains(folder + "/")) return {};
  Files files;
  for (const auto& [path, bytes] : tree) {
    if (path.starts_with(folder + "/") && path != folder + "/") {
      files[path.substr(folder.size() + 1)] = bytes;
    }
  }
  return files;
}

std::string shown(std::string bytes) {
  std::replace(bytes.begin(), bytes.end(), '\0', '.');
  return fmt::format("'{}'", bytes);
}

/// The first place where a folder is not what it should be, with the name of the file.
struct Difference {
  std::string file;
  std::string what;
  bool missing = false;
};

std::optional<Difference> difference(const Files& found, const Files& expected) {
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

bool is(const Operation& operation, Asked asked, const std::string& path) {
  return operation.asked == asked && operation.path == path;
}

/// Whether a file was asked for `then` after the last `first`.
bool asked_after(const CrashingDisk& disk, const std::string& path, Asked first, Asked then) {
  bool found = false;
  for (const Operation& operation : disk.operations()) {
    found = is(operation, then, path) || (found && !is(operation, first, path));
  }
  return found;
}

bool synced_parent_before_the_rename(const CrashingDisk& disk) {
  for (const Operation& operation : disk.operations()) {
    if (operation.asked == Asked::kRename) return false;
    if (is(operation, Asked::kSyncFolder, kParent)) return true;
  }
  return false;
}

bool asked(const CrashingDisk& disk, Asked asked, const std::string& path) {
  return std::any_of(disk.operations().begin(), disk.operations().end(),
                     [&](const Operation& operation) { return is(operation, asked, path); });
}

std::string hint_for_lost_bytes(const CrashingDisk& disk, const std::string& file) {
  const std::string path = fmt::format("{}/{}", kStaging, file);
  const auto made = std::count_if(
      disk.operations().begin(), disk.operations().end(),
      [&](const Operation& operation) { return is(operation, Asked::kCreate, path); });
  if (made > 1) return kEmptied;
  if (!asked(disk, Asked::kSync, path)) return kNoSync;
  return asked_after(disk, path, Asked::kWrite, Asked::kSync) ? kNotThere : kSyncTooEarly;
}

std::string hint_for_half_a_checkpoint(const CrashingDisk& disk, const Difference& difference) {
  for (const Operation& operation : disk.operations()) {
    if (is(operation, Asked::kMakeFolder, kDestination)) return kOneRename;
  }
  if (!difference.missing) return hint_for_lost_bytes(disk, difference.file);
  return synced_parent_before_the_rename(disk) ? kWrongFolder : kNamesFirst;
}

std::string hint_for_lost_rename(const CrashingDisk& disk) {
  return synced_parent_before_the_rename(disk) ? kParentTooEarly : kParentNotSynced;
}

class DurableFilesTest : public ultra::test::RandomTest {
 protected:
  std::string draw_bytes(std::size_t count) {
    std::string bytes;
    while (bytes.size() < count) bytes += static_cast<char>('a' + random.between(0, 25));
    return bytes;
  }

  /// Three files of random bytes, cut into parts that three ranks write in a random order.
  Checkpoint draw() {
    Checkpoint drawn;
    drawn.ranks.resize(3);
    for (const char* name : {"model.safetensors", "parts-0.json", "training.json"}) {
      const std::string bytes = draw_bytes(random.between(4, 30));
      drawn.files[name] = bytes;
      if (random.between(0, 1) == 0) drawn.sized.insert(name);
      for (std::size_t begin = 0; begin < bytes.size();) {
        const std::size_t count = random.between(1, bytes.size() - begin);
        drawn.ranks[random.between(0, 2)].push_back({name, begin, bytes.substr(begin, count)});
        begin += count;
        if (random.between(0, 3) == 0)
          drawn.ranks[random.between(0, 2)].push_back({name, begin, ""});
      }
    }
    for (auto& parts : drawn.ranks) {
      for (std::size_t i = parts.size(); i > 1; --i) {
        std::swap(parts[i - 1], parts[random.between(0, i - 1)]);
      }
    }
    return drawn;
  }

  /// Calls check(checkpoint) for random checkpoints until one fails.
  template <class Check>
  void for_checkpoints(int count, const Check& check) {
    for (int i = 0; i < count && !HasFailure(); ++i) {
      const Checkpoint checkpoint = draw();
      SCOPED_TRACE(checkpoint.str());
      check(checkpoint);
    }
  }

  /// Fails unless check(tree) is empty, whatever a power failure leaves now.
  template <class Check>
  void expect_after_power_failure(const CrashingDisk& disk, const Check& check) {
    for (const test::Fates& fates : disk.possible_fates(random)) {
      const std::string problem = check(disk.after_power_failure(fates));
      if (problem.empty()) continue;
      ADD_FAILURE() << "After a power failure: " << problem << "\nThe last operation was "
                    << disk.operations().back().str()
                    << "\nWhat nobody had forced to the disk became:" << disk.str(fates);
      return;
    }
  }
};

TEST_F(DurableFilesTest, PartsStandAtTheirOffsets) {
  for_checkpoints(200, [](const Checkpoint& checkpoint) {
    CrashingDisk disk;
    make_files(disk, checkpoint, kStaging);
    Files expected = *files_in(disk.now(), kStaging);
    for (const auto& parts : checkpoint.ranks) {
      disk.settle();
      write_parts(disk, checkpoint, parts, kStaging);
      for (const RankPart& part : parts) {
        if (part.bytes.empty()) continue;
        std::string& bytes = expected[part.file];
        bytes.resize(std::max(bytes.size(), part.offset + part.bytes.size()));
        bytes.replace(part.offset, part.bytes.size(), part.bytes);
      }
      const auto found = difference(*files_in(disk.now(), kStaging), expected);
      if (!found) continue;
      const char* hint = kNotThere;
      for (const Operation& operation : disk.operations()) {
        const bool known = std::any_of(parts.begin(), parts.end(), [&](const RankPart& part) {
          return part.offset == operation.offset && part.bytes.size() == operation.bytes;
        });
        if (operation.asked == Asked::kWrite && !known) hint = kOffset;
        if (operation.asked == Asked::kCreate) hint = kEmptied;
      }
      FAIL() << "after a rank has written its parts, " << found->what << "\n" << hint;
    }
  });
}

TEST_F(DurableFilesTest, NoPartsAndEmptyPartsChangeNothing) {
  CrashingDisk disk;
  const Checkpoint checkpoint{.files = {{"weights", "abcdef"}}, .sized = {}, .ranks = {}};
  make_files(disk, checkpoint, kStaging);
  write_parts(disk, checkpoint, {{"weights", 0, "abcdef"}}, kStaging);
  disk.settle();
  for (const std::vector<RankPart>& parts :
       {std::vector<RankPart>{}, {{"weights", 6, ""}}, {{"weights", 2, ""}, {"weights", 0, ""}}}) {
    write_parts(disk, checkpoint, parts, kStaging);
    const auto found = difference(*files_in(disk.now(), kStaging), checkpoint.files);
    EXPECT_FALSE(found) << "after " << parts.size() << " parts without bytes, " << found->what
                        << "\n"
                        << (asked(disk, Asked::kCreate, fmt::format("{}/weights", kStaging))
                                ? kEmptied
                                : kNotThere);
  }
}

TEST_F(DurableFilesTest, WhatIsWrittenSurvivesAPowerFailure) {
  for_checkpoints(20, [&](const Checkpoint& checkpoint) {
    CrashingDisk disk;
    make_files(disk, checkpoint, kStaging);
    disk.sync_folder("/");
    disk.sync_folder(kParent);
    disk.sync_folder(kStaging);
    std::vector<RankPart> written;
    for (const auto& parts : checkpoint.ranks) {
      write_parts(disk, checkpoint, parts, kStaging);
      written.insert(written.end(), parts.begin(), parts.end());
      expect_after_power_failure(disk, [&](const Tree& tree) -> std::string {
        const Files found = files_in(tree, kStaging).value();
        for (const RankPart& part : written) {
          const std::string& bytes = found.at(part.file);
          if (part.bytes.empty()) continue;
          if (bytes.size() > part.offset &&
              bytes.compare(part.offset, part.bytes.size(), part.bytes) == 0) {
            continue;
          }
          return fmt::format(
              "{} holds {} ('.' is a zero), expected {} at {}: write_durably() had "
              "written it.\n{}",
              part.file, shown(bytes), shown(part.bytes), part.offset,
              hint_for_lost_bytes(disk, part.file));
        }
        return {};
      });
      if (HasFailure()) return;
    }
  });
}

TEST_F(DurableFilesTest, PowerMayFailBeforeEachOperation) {
  for_checkpoints(6, [&](const Checkpoint& checkpoint) {
    bool failed = true;
    for (std::size_t operation = 1; failed && !HasFailure(); ++operation) {
      CrashingDisk disk;
      prepare(disk);
      disk.lose_power_before(operation);
      failed = false;
      try {
        save(disk, checkpoint);
      } catch (const test::PowerFailure&) {
        failed = true;
      }
      expect_after_power_failure(disk, [&](const Tree& tree) -> std::string {
        if (files_in(tree, kOlder) != Files{{"weights", kOlderBytes}}) {
          return "the older checkpoint is not what it was.\nHint: nothing changes but `staging`.";
        }
        const auto found = files_in(tree, kDestination);
        const auto wrong = found ? difference(*found, checkpoint.files) : std::nullopt;
        if (!wrong) return {};
        return fmt::format("a part of the checkpoint has its name: {}.\n{}", wrong->what,
                           hint_for_half_a_checkpoint(disk, *wrong));
      });
    }
  });
}

TEST_F(DurableFilesTest, CommittedCheckpointSurvivesAPowerFailure) {
  for_checkpoints(20, [&](const Checkpoint& checkpoint) {
    CrashingDisk disk;
    prepare(disk);
    save(disk, checkpoint);
    ASSERT_TRUE(files_in(disk.now(), kDestination)) << kNotRenamed;
    EXPECT_FALSE(files_in(disk.now(), kStaging))
        << "`staging` is still there, beside `destination`.\n"
        << kOneRename;
    expect_after_power_failure(disk, [&](const Tree& tree) -> std::string {
      const auto found = files_in(tree, kDestination);
      if (!found) {
        return fmt::format("there is no checkpoint, although commit_folder() had returned.\n{}",
                           hint_for_lost_rename(disk));
      }
      const auto wrong = difference(*found, checkpoint.files);
      if (!wrong) return {};
      return fmt::format("in the checkpoint, {}.\n{}", wrong->what,
                         hint_for_half_a_checkpoint(disk, *wrong));
    });
  });
}

TEST_F(DurableFilesTest, ErrorsReachTheCaller) {
  for_checkpoints(10, [](const Checkpoint& checkpoint) {
    CrashingDisk whole;
    prepare(whole);
    save(whole, checkpoint);
    for (std::size_t i = 0; i < whole.operations().size(); ++i) {
      const Operation& failing = whole.operations()[i];
      CrashingDisk disk;
      prepare(disk);
      disk.fail(i);
      EXPECT_THROW(save(disk, checkpoint), FileError)
          << failing.str() << " has failed, but nobody was told\n"
          << (failing.asked == Asked::kSync ? kSyncedAgain : kErrorLost);
      if (::testing::Test::HasFailure()) return;
      const auto found = files_in(disk.now(), kDestination);
      const auto wrong = found ? difference(*found, checkpoint.files) : std::nullopt;
      ASSERT_FALSE(wrong) << "after " << failing.str()
                          << " has failed, a part of the checkpoint has its name: " << wrong->what
                          << "\n"
                          << hint_for_half_a_checkpoint(disk, *wrong);
    }
  });
}

TEST_F(DurableFilesTest, FilesAreClosed) {
  for_checkpoints(10, [](const Checkpoint& checkpoint) {
    CrashingDisk disk;
    prepare(disk);
    save(disk, checkpoint);
    for (const auto& [name, bytes] : checkpoint.files) {
      const std::string path = fmt::format("{}/{}", kStaging, name);
      EXPECT_TRUE(asked_after(disk, path, Asked::kOpen, Asked::kClose))
          << name << " was opened and never closed\n"
          << kNotClosed;
    }
  });
}

TEST_F(DurableFilesTest, OnTheFilesOfThisMachine) {
  for_checkpoints(5, [](const Checkpoint& checkpoint) {
    const ultra::test::TemporaryFolder folder;
    checkpoint::FileLayer& files = checkpoint::posix_files();
    const fs::path staging = folder.path(".unfinished");
    const fs::path destination = folder.path("step-00000200");
    make_files(files, checkpoint, staging);
    for (const auto& parts : checkpoint.ranks) write_parts(files, checkpoint, parts, staging);
    commit_folder(files, staging, destination);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"step-00000200"});
    Files found;
    for (const std::string& name : files.list(destination)) {
      found[name] = ultra::test::read_file((destination / name).string());
    }
    EXPECT_EQ(found, checkpoint.files);
  });
}

}  // namespace
}  // namespace ultra::zero
