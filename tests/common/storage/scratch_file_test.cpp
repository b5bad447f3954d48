#include "common/storage/scratch_file.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::storage {
namespace {

TEST(ScratchFile, HasItsLengthAndNoName) {
  const test::TemporaryFolder folder;
  const ScratchFile file(folder.path(), 12'345);
  struct stat status;
  ASSERT_EQ(::fstat(file.descriptor(), &status), 0);
  EXPECT_EQ(status.st_size, 12'345);
  EXPECT_EQ(status.st_nlink, 0U);
  EXPECT_EQ(file.size(), 12'345U);
}

TEST(ScratchFile, MayBeEmpty) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(ScratchFile(folder.path(), 0).size(), 0U);
}

TEST(ScratchFile, MessagesNameTheFolderTheReasonAndWhatToDo) {
  const test::TemporaryFolder folder;
  const ScratchFile file(folder.path(), 8);
  EXPECT_THAT(file.failure(ENOSPC, "written").what(),
              AllOf(HasSubstr("scratch file in '" + folder.path() + "' cannot be written"),
                    HasSubstr("the disk is full"), HasSubstr("another disk")));
  EXPECT_THAT(file.failure(EROFS, "made").what(), HasSubstr("not mounted read-only"));
  EXPECT_THAT(file.failure(EIO, "read").what(), HasSubstr("cannot be read: Input/output error."));
  EXPECT_THAT(file.end_of_file(5, 4, 3).what(),
              HasSubstr("ends at byte 5, expected 3 bytes from byte 4 on"));
}

TEST(ScratchFile, AFileIsNoFolder) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("file", "text");
  EXPECT_THAT(message_of<FileError>([&] { const ScratchFile file(path, 8); }),
              AllOf(HasSubstr("'" + path + "'"), HasSubstr("Not a directory")));
}

TEST(ScratchFile, ALengthThatNoFileHasIsRefused) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(
      message_of<FileError>([&] { const ScratchFile file(folder.path(), ~std::uint64_t{0}); }),
      HasSubstr("the disk is full"));
}

}  // namespace
}  // namespace ultra::storage
