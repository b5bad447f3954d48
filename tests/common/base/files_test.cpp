// Small files.
//
// Covers: common/base/text_file.hpp
// Covers: common/base/same_file.hpp
// Covers: common/base/atomic_file.hpp

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>

#include "common/base/atomic_file.hpp"
#include "common/base/same_file.hpp"
#include "common/base/text_file.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;

class TextFiles : public ::testing::Test {
 protected:
  static std::string read(const std::string& path, std::size_t most = 1U << 20U) {
    return text_of_file(path, most, "the list", "Give a list.");
  }
  static std::string refusal(const std::string& path) {
    return test::message_of<FileError>([&] { static_cast<void>(read(path)); });
  }

  test::TemporaryFolder folder;
};

TEST_F(TextFiles, AreReadWhole) {
  const std::string odd("\0\r\n\xFF", 4);
  EXPECT_EQ(read(folder.write("odd", odd)), odd);
  EXPECT_EQ(read(folder.write("empty", "")), "");
  std::string large;
  for (int i = 0; i < 100'000; ++i) large += std::to_string(i);
  const std::string path = folder.write("large", large);
  EXPECT_EQ(read(path), large);
  fs::create_symlink(path, folder.path("link"));
  EXPECT_EQ(read(folder.path("link")), large);
}

TEST_F(TextFiles, LargerThanAllowedGiveOneByteMore) {
  const std::string path = folder.write("text", "12345");
  EXPECT_EQ(read(path, 5), "12345");
  EXPECT_EQ(read(path, 4), "12345");
  EXPECT_EQ(read(path, 3), "1234");
  EXPECT_EQ(read(path, 0), "1");
}

// Nobody writes to the pipe: to open it would be to wait for ever.
TEST_F(TextFiles, ThatAreNoneAreRefusedAtOnce) {
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refusal(pipe), AllOf(StartsWith("the list cannot be read: it is a pipe"),
                                   EndsWith(". Give a list.")));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("it is a folder"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("it is a device"));
  EXPECT_THAT(refusal(folder.path("none")), HasSubstr("No such file or directory"));
  EXPECT_THAT(refusal(folder.write("text", "mine") + "/inside"), HasSubstr("Not a directory"));
  EXPECT_THAT(refusal(""), HasSubstr("No such file or directory"));
}

TEST_F(TextFiles, OfOthersAreRefusedWithTheReason) {
  const std::string secret = folder.write("secret", "text");
  fs::permissions(secret, fs::perms::none);
  fs::permissions(folder.path(), fs::perms::all);
  const test::WithoutPrivileges nobody;
  EXPECT_THAT(refusal(secret), HasSubstr("Permission denied"));
}

namespace fs = std::filesystem;

class SameFile : public ::testing::Test {
 protected:
  /// In both orders.
  [[nodiscard]] bool same(const std::string& a, const std::string& b) const {
    const bool found = same_file(folder.path(a), folder.path(b));
    EXPECT_EQ(same_file(folder.path(b), folder.path(a)), found) << a << " " << b;
    return found;
  }
  void link(const std::string& target, const std::string& name) const {
    fs::create_symlink(target, folder.path(name));
  }

  test::TemporaryFolder folder;
};

TEST_F(SameFile, IsWhatTheSystemSaysOfWhatExists) {
  folder.write("text", "a");
  folder.write("copy", "a");
  folder.write("sub/inside", "a");
  link("text", "link");
  link(folder.path("link"), "link to a link");
  link("sub", "sub link");
  fs::create_hard_link(folder.path("text"), folder.path("hard link"));
  for (const char* name :
       {"text", "./text", "sub/../text", "link", "link to a link", "hard link"}) {
    EXPECT_TRUE(same("text", name)) << name;
  }
  for (const char* name : {"copy", "sub/inside", "sub", "missing", "text.more"}) {
    EXPECT_FALSE(same("text", name)) << name;
  }
  EXPECT_TRUE(same("sub/inside", "sub link/inside"));
  EXPECT_TRUE(same("sub", "sub link/")) << "a folder";
}

TEST_F(SameFile, WhatIsNotThereYetIsItsFolderAndItsName) {
  folder.write("sub/inside", "a");
  link("sub", "sub link");
  link("sub/new", "link to new");
  for (const char* name :
       {"sub/new", "sub link/new", "sub/./new", "sub/../sub/new", "link to new", "sub/new/"}) {
    EXPECT_TRUE(same("sub/new", name)) << name;
  }
  for (const char* name : {"new", "sub/inside", "sub/new2", "sub/new/new", "sub"}) {
    EXPECT_FALSE(same("sub/new", name)) << name;
  }
  EXPECT_TRUE(same("no/folder/new", "no/other/../folder/new")) << "nor its folders";
  EXPECT_FALSE(same("no/folder/new", "no/new"));
}

TEST_F(SameFile, RelativePathsAreThoseOfTheWorkingFolder) {
  EXPECT_TRUE(same_file("a-name-that-nothing-has", "./a-name-that-nothing-has"));
  EXPECT_TRUE(same_file("a-name-that-nothing-has", fs::current_path() / "a-name-that-nothing-has"));
  EXPECT_FALSE(same_file("a-name-that-nothing-has", "another-one"));
}

TEST_F(SameFile, ACircleOfLinksIsNothing) {
  link("b", "a");
  link("a", "b");
  EXPECT_FALSE(same("a", "c"));
}

TEST_F(SameFile, LinksLeadToWhereNothingIsYet) {
  link("two", "one");
  link("three", "two");
  EXPECT_EQ(follow_links(folder.path("one")), folder.path("three"));
  EXPECT_EQ(follow_links(folder.path("four")), folder.path("four"));
}

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
