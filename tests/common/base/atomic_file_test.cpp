#include "common/base/atomic_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/files/temporary_folder.hpp"

namespace ultra {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr const char* kPurpose = "metrics file (--metrics)";

std::string refusal(const std::string& path) {
  return test::message_of<FileError>([&] { AtomicFile(path, kPurpose); });
}

class AtomicFiles : public ::testing::Test {
 protected:
  test::TemporaryFolder folder;
  std::string path = folder.path("result");
};

TEST_F(AtomicFiles, IsThereWholeAfterCommit) {
  AtomicFile file(path, kPurpose);
  file.write("first\n");
  file.write(std::string("sec\0nd\n", 7));
  EXPECT_THAT(folder.names(), IsEmpty()) << "nobody may read half a file";
  file.commit();
  EXPECT_EQ(test::read_file(path), std::string("first\nsec\0nd\n", 13));
  EXPECT_THAT(folder.names(), ElementsAre("result"));
}

TEST_F(AtomicFiles, LeavesNothingWithoutCommit) {
  {
    AtomicFile file(path, kPurpose);
    file.write("half");
  }
  EXPECT_THAT(folder.names(), IsEmpty());
}

// Nobody could remove what a program leaves behind that is killed.
TEST_F(AtomicFiles, LeavesNothingWhenTheProgramIsKilled) {
  const ::pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(path, kPurpose);
    file.write(std::string(1U << 20U, 'x'));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST_F(AtomicFiles, KeepsTheOldFileUntilCommit) {
  folder.write("result", "old");
  {
    AtomicFile abandoned(path, kPurpose);
    abandoned.write("new");
  }
  EXPECT_EQ(test::read_file(path), "old");
  AtomicFile file(path, kPurpose);
  file.write("new");
  file.commit();
  EXPECT_EQ(test::read_file(path), "new");
}

TEST_F(AtomicFiles, ReplacesTheTargetOfASymbolicLink) {
  const std::string target = folder.write("target", "old");
  fs::create_symlink(target, path);
  AtomicFile file(path, kPurpose);
  file.write("new");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(path));
  EXPECT_EQ(test::read_file(target), "new");
}

TEST_F(AtomicFiles, MakesTheTargetOfALinkThatLeadsNowhereYet) {
  fs::create_symlink("target", path);
  AtomicFile file(path, kPurpose);
  file.write("new");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(path));
  EXPECT_EQ(test::read_file(folder.path("target")), "new");
}

TEST_F(AtomicFiles, LeavesTheUsersFilesBesideItAlone) {
  folder.write("result.partial", "mine");
  {
    AtomicFile file(path, kPurpose);
    file.write("new");
    file.commit();
  }
  EXPECT_EQ(test::read_file(folder.path("result.partial")), "mine");
}

TEST_F(AtomicFiles, OfOnePathAtOnceAreEachWhole) {
  AtomicFile first(path, kPurpose);
  AtomicFile second(path, kPurpose);
  first.write("first");
  second.write("second");
  first.commit();
  EXPECT_EQ(test::read_file(path), "first");
  second.commit();
  EXPECT_EQ(test::read_file(path), "second");
  EXPECT_THAT(folder.names(), ElementsAre("result"));
}

TEST_F(AtomicFiles, TakeANameOfTheLongestLength) {
  const std::string longest = folder.path(std::string(255, 'a'));
  AtomicFile file(longest, kPurpose);
  file.commit();
  EXPECT_TRUE(fs::exists(longest));
}

TEST_F(AtomicFiles, RefusesAFileThatMayNotBeWritten) {
  folder.write("result", "old");
  fs::permissions(path, fs::perms::owner_read);
  fs::permissions(folder.path(), fs::perms::all);
  const test::WithoutPrivileges nobody;
  EXPECT_THAT(refusal(path), HasSubstr("Permission denied"));
  EXPECT_EQ(fs::file_size(path), 3U);
}

TEST_F(AtomicFiles, RefusesAPipeThatNobodyReadsAtOnce) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(refusal(path),
              AllOf(HasSubstr("is a pipe that nobody reads"), HasSubstr("Start its reader first")));
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST_F(AtomicFiles, WriteIntoAPipeThatIsRead) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  AtomicFile file(path, kPurpose);
  file.write("text");
  file.commit();
  std::array<char, 8> read{};
  EXPECT_EQ(::read(reader, read.data(), read.size()), 4);
  EXPECT_EQ(std::string(read.data()), "text");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(path));
}

// Moving a file onto what a descriptor leads to would leave the writers of that one with nothing.
TEST_F(AtomicFiles, AppendToWhatADescriptorHasOpen) {
  folder.write("result", "before\n");
  const int opened = ::open(path.c_str(), O_WRONLY | O_APPEND);
  ASSERT_GE(opened, 0);
  AtomicFile file("/dev/fd/" + std::to_string(opened), kPurpose);
  file.write("text\n");
  file.commit();
  EXPECT_EQ(::write(opened, "after\n", 6), 6);
  ::close(opened);
  EXPECT_EQ(test::read_file(path), "before\ntext\nafter\n");
  EXPECT_THAT(folder.names(), ElementsAre("result"));
}

TEST_F(AtomicFiles, RefusesAFolder) {
  EXPECT_THAT(refusal(folder.path()),
              AllOf(StartsWith(kPurpose), HasSubstr("'" + folder.path() + "' is a folder"),
                    HasSubstr("Give the path of a file")));
}

TEST_F(AtomicFiles, RefusesAMissingFolderBeforeAnyWork) {
  const std::string missing = folder.path("missing/result");
  EXPECT_THAT(refusal(missing),
              AllOf(StartsWith(kPurpose), HasSubstr("'" + missing + "' cannot be written"),
                    HasSubstr("No such file or directory"), HasSubstr("Give a path in a folder")));
}

TEST_F(AtomicFiles, RefusesAFileAsFolderAndATooLongName) {
  folder.write("result", "old");
  EXPECT_THAT(refusal(path + "/inside"), HasSubstr("Not a directory"));
  EXPECT_THAT(refusal(folder.path(std::string(300, 'a'))), HasSubstr("File name too long"));
}

TEST_F(AtomicFiles, RefusesAFolderWithoutPermission) {
  const std::string inside = folder.write("closed/old", "old");
  fs::permissions(folder.path("closed"), fs::perms::none);
  const test::WithoutPrivileges nobody;
  EXPECT_THAT(refusal(inside), HasSubstr("Permission denied"));
  EXPECT_THAT(refusal(folder.path("closed/new")), HasSubstr("Permission denied"));
}

// /dev/full fails every write with "no space left". As root, moving a file onto it would replace it.
TEST(AtomicFileOnADevice, WritesToItDirectlyAndReportsAFullDisk) {
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  AtomicFile file("/dev/full", kPurpose);
  file.write(std::string(100'000, 'x'));
  const std::string message = test::message_of<FileError>([&] { file.commit(); });
  EXPECT_THAT(message, AllOf(StartsWith(kPurpose), HasSubstr("'/dev/full' could not be written"),
                             HasSubstr("disk full")));
  EXPECT_TRUE(fs::is_character_file("/dev/full")) << "a device must never be replaced";
  EXPECT_FALSE(fs::exists("/dev/full.partial"));
}

TEST(AtomicFileOnADevice, AcceptsOneThatTakesEverything) {
  AtomicFile file("/dev/null", kPurpose);
  file.write("text");
  EXPECT_NO_THROW(file.commit());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace ultra
