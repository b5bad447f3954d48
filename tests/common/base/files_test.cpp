// Small files.
// Covers: common/base/text_file.hpp
// Covers: common/base/same_file.hpp

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <filesystem>
#include <string>

#include "common/base/errors.hpp"
#include "common/base/same_file.hpp"
#include "common/base/text_file.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/files/temporary_folder.hpp"

namespace ultra {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

}  // namespace
}  // namespace ultra
