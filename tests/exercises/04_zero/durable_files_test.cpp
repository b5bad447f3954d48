// Contract of exercise 04.7: three ranks write a checkpoint onto a disk whose power fails before
// each operation in turn, and which then keeps of all that was not forced whatever it likes.
#include "chapters/04_zero/checkpoints/durable_files.hpp"

#include "tests/exercises/04_zero/disk/disk_checkpoint.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace test;

class DurableFilesTest : public ultra::test::RandomTest {
 protected:
  /// Calls check(checkpoint) for random checkpoints until one fails.
  template <class Check>
  void for_checkpoints(int count, const Check& check) {
    for (int i = 0; i < count && !HasFailure(); ++i) {
      const Checkpoint checkpoint = draw_checkpoint(random);
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
    make_files(disk, checkpoint);
    Files expected = *files_in(disk.now(), kStaging);
    for (const auto& parts : checkpoint.ranks) {
      disk.settle();
      write_parts(disk, checkpoint, parts);
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
        if (operation.asked == Asked::kWrite && !known)
          hint =
              "Hint: each part says where it stands: write_at(part.offset, part.bytes), in "
              "whatever order the parts are.";
        if (operation.asked == Asked::kCreate) hint = kEmptied;
      }
      FAIL() << "after a rank has written its parts, " << found->what << "\n" << hint;
    }
  });
}

TEST_F(DurableFilesTest, WhatIsWrittenSurvivesAPowerFailure) {
  for_checkpoints(20, [&](const Checkpoint& checkpoint) {
    CrashingDisk disk;
    make_files(disk, checkpoint);
    disk.sync_folder("/");
    disk.sync_folder(kParent);
    disk.sync_folder(kStaging);
    std::vector<RankPart> written;
    for (const auto& parts : checkpoint.ranks) {
      write_parts(disk, checkpoint, parts);
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
              "{} holds {} ('.' is a zero), expected {} at {}: write_durably() had written it.\n{}",
              part.file, shown(bytes), shown(part.bytes), part.offset,
              hint_for_lost_bytes(disk, part.file));
        }
        return {};
      });
      if (HasFailure()) return;
    }
  });
}

/// Before each operation, and in the end after the last one.
TEST_F(DurableFilesTest, APowerFailureLeavesAllOfACheckpointOrNothing) {
  for_checkpoints(8, [&](const Checkpoint& checkpoint) {
    bool failed = true;
    for (std::size_t operation = 1; failed && !HasFailure(); ++operation) {
      CrashingDisk disk;
      prepare(disk);
      disk.lose_power_before(operation);
      failed = false;
      try {
        save(disk, checkpoint);
        ASSERT_TRUE(files_in(disk.now(), kDestination))
            << "Hint: `destination` is the new name of the folder `staging`.";
        EXPECT_FALSE(files_in(disk.now(), kStaging))
            << "`staging` is still there, beside `destination`.\n"
            << kOneRename;
      } catch (const test::PowerFailure&) {
        failed = true;
      }
      expect_after_power_failure(disk, [&](const Tree& tree) -> std::string {
        if (files_in(tree, kOlder) != Files{{"weights", kOlderBytes}}) {
          return "the older checkpoint is not what it was.\nHint: nothing changes but `staging`.";
        }
        const auto found = files_in(tree, kDestination);
        if (!found) {
          return failed ? ""
                        : fmt::format(
                              "there is no checkpoint, although commit_folder() had returned.\n{}",
                              hint_for_lost_rename(disk));
        }
        const auto wrong = difference(*found, checkpoint.files);
        if (!wrong) return {};
        return fmt::format("a part of the checkpoint has its name: {}.\n{}", wrong->what,
                           hint_for_half_a_checkpoint(disk, *wrong));
      });
    }
  });
}

TEST_F(DurableFilesTest, FilesAreClosedAndErrorsReachTheCaller) {
  for_checkpoints(10, [](const Checkpoint& checkpoint) {
    CrashingDisk whole;
    prepare(whole);
    save(whole, checkpoint);
    for (const auto& [name, bytes] : checkpoint.files) {
      const std::string path = kStaging + ("/" + name);
      EXPECT_GT(last(whole, Asked::kClose, path), last(whole, Asked::kOpen, path))
          << name << " was opened and never closed\n"
          << "Hint: a file system may tell of a failed write as late as in close(), and the "
             "destructor closes without a word: call it, after sync().";
    }
    for (std::size_t i = 0; i < whole.operations().size(); ++i) {
      const Operation& failing = whole.operations()[i];
      CrashingDisk disk;
      prepare(disk);
      disk.fail(i);
      EXPECT_THROW(save(disk, checkpoint), FileError)
          << failing.str() << " has failed, but nobody was told\n"
          << (failing.asked == Asked::kSync
                  ? "Hint: a sync() that fails may have dropped the bytes, and the next one has "
                    "nothing to do: let its error through, do not try again."
                  : "Hint: whoever calls must know that the disk failed: let the error of the "
                    "files through.");
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

}  // namespace
}  // namespace ultra::zero
