#include "common/base/same_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.hpp"

namespace ultra {
namespace {

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
