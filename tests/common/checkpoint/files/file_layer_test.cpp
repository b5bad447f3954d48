// Covers: common/checkpoint/files/descriptor.hpp, common/checkpoint/files/system_failure.hpp

#include "common/checkpoint/files/file_layer.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/files/own_disk.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::ultra::test::DiskState;
using ::ultra::test::with_own_disk;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string read_part(const InputFile& file, std::uint64_t offset, std::size_t count) {
  std::string text(count, '?');
  file.read_at(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

/// Names the path, says why, and is one line.
auto one_line(const std::string& path, const std::string& reason) {
  return AllOf(HasSubstr("'" + path + "'"), HasSubstr(reason), Not(HasSubstr("\n")));
}

template <class Fn>
std::string failure_of(Fn&& fn) {
  return message_of<FileError>(std::forward<Fn>(fn));
}

class PosixFiles : public ::testing::Test {
 protected:
  test::TemporaryFolder folder;
  std::string path = folder.path("data");
  FileLayer& files = posix_files();
};

// ---- Writing ------------------------------------------------------------------------------------

TEST_F(PosixFiles, PartsAreWrittenInAnyOrder) {
  const auto file = files.create(path);
  file->write_at(6, bytes_of("world"));
  file->write_at(0, bytes_of("hello"));
  file->sync();
  file->close();
  EXPECT_EQ(test::read_file(path), std::string("hello\0world", 11)) << "what is between is zero";
}

TEST_F(PosixFiles, CreateEmptiesAndOpenForWritingKeeps) {
  folder.write("data", "old content");
  files.open_for_writing(path)->write_at(0, bytes_of("new"));
  EXPECT_EQ(test::read_file(path), "new content");
  static_cast<void>(files.create(path));
  EXPECT_EQ(test::read_file(path), "");
}

TEST_F(PosixFiles, OpenForWritingMakesNoFile) {
  EXPECT_THAT(failure_of([&] { return files.open_for_writing(path); }),
              AllOf(one_line(path, "No such file or directory"), HasSubstr("opened for writing"),
                    HasSubstr("Check the path")));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST_F(PosixFiles, AMissingFolderIsReported) {
  const std::string missing = folder.path("missing/data");
  EXPECT_THAT(failure_of([&] { return files.create(missing); }),
              AllOf(one_line(missing, "No such file or directory"), HasSubstr("cannot be made")));
}

TEST_F(PosixFiles, AFolderIsNotWritable) {
  EXPECT_THAT(failure_of([&] { return files.create(folder.path()); }),
              one_line(folder.path(), "Is a directory"));
}

TEST_F(PosixFiles, PermissionsAreReported) {
  const std::string inside = folder.write("closed/old", "old");
  const std::string secret = folder.write("secret", "text");
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(folder.path("closed"), fs::perms::none);
  fs::permissions(secret, fs::perms::none);
  const test::WithoutPrivileges nobody;
  const auto denied = [](const std::string& named) {
    return AllOf(one_line(named, "Permission denied"), HasSubstr("Check the permissions"));
  };
  const std::string fresh = folder.path("closed/new");
  EXPECT_THAT(failure_of([&] { return files.create(fresh); }), denied(fresh));
  EXPECT_THAT(failure_of([&] { return files.open_for_writing(secret); }), denied(secret));
  EXPECT_THAT(failure_of([&] { return files.open_for_reading(secret); }), denied(secret));
  EXPECT_THAT(failure_of([&] { return files.exists(inside); }), denied(inside));
  EXPECT_THAT(failure_of([&] { files.make_folder(fresh); }), denied(fresh));
  EXPECT_THAT(failure_of([&] { files.rename(inside, path); }), denied(inside));
  const std::string closed = folder.path("closed");
  EXPECT_THAT(failure_of([&] { return files.list(closed); }), denied(closed));
  EXPECT_THAT(failure_of([&] { files.sync_folder(closed); }), denied(closed));
  EXPECT_THAT(failure_of([&] { files.remove_all(closed); }), denied(closed));
}

// ---- Sizes and full disks -----------------------------------------------------------------------

TEST_F(PosixFiles, ResizeGrowsWithZerosAndCuts) {
  const auto file = files.create(path);
  file->write_at(0, bytes_of("text"));
  file->resize(6);
  EXPECT_EQ(test::read_file(path), std::string("text\0\0", 6));
  file->resize(2);
  EXPECT_EQ(test::read_file(path), "te");
  file->resize(0);
  EXPECT_EQ(test::read_file(path), "");
}

TEST_F(PosixFiles, ResizeKeepsThePlaceOnTheDisk) {
  constexpr std::uint64_t kBytes = 1 << 20;
  const int probe = open(folder.path("probe").c_str(), O_RDWR | O_CREAT, 0600);
  const int error = posix_fallocate(probe, 0, kBytes);
  close(probe);
  if (error != 0) GTEST_SKIP() << "this file system does not allocate ahead";
  files.create(path)->resize(kBytes);
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(kBytes));
  EXPECT_GE(status.st_blocks * 512, status.st_size) << "a hole would let a later write fail";
}

TEST_F(PosixFiles, ResizeBeyondTheDiskIsRefusedAtOnce) {
  const auto file = files.create(path);
  const std::uint64_t exabyte = 1'000'000'000'000'000'000;
  EXPECT_THAT(failure_of([&] { file->resize(exabyte); }),
              AllOf(one_line(path, "No space left on device"), HasSubstr("1000 PB"),
                    HasSubstr("are free"), HasSubstr("Free some space")));
  EXPECT_EQ(fs::file_size(path), 0U);
}

TEST_F(PosixFiles, NoFileIsLongerThanAnOffsetCanSay) {
  const auto file = files.create(path);
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(failure_of([&] { file->resize(kMost); }), one_line(path, "File too large"));
  EXPECT_THAT(failure_of([&] { file->write_at(kMost, bytes_of("xx")); }),
              one_line(path, "File too large"));
  const auto input = files.open_for_reading(path);
  EXPECT_THAT(failure_of([&] { return read_part(*input, kMost - 1, 8); }),
              one_line(path, "File too large"));
}

// /dev/full fails every write with "no space left".
TEST(PosixFilesOnADevice, AFullDiskIsReported) {
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const auto file = posix_files().create("/dev/full");
  EXPECT_THAT(failure_of([&] { file->write_at(0, bytes_of("text")); }),
              AllOf(one_line("/dev/full", "No space left on device"), HasSubstr("written"),
                    HasSubstr("Free some space")));
  EXPECT_THAT(failure_of([&] { file->sync(); }), one_line("/dev/full", "Invalid argument"));
  EXPECT_THAT(failure_of([&] { file->resize(1); }), one_line("/dev/full", "Invalid argument"));
}

TEST_F(PosixFiles, ASmallDiskIsFullBeforeTheWork) {
  const auto message = with_own_disk(folder.path(), 1 << 16, DiskState::kWritable, [&] {
    const auto file = files.create(path);
    file->resize(1 << 15);
    return failure_of([&] { file->resize(1 << 17); });
  });
  if (!message) GTEST_SKIP() << "this machine does not allow mounts";
  EXPECT_THAT(*message, AllOf(one_line(path, "No space left on device"), HasSubstr("131 kB long"),
                              HasSubstr("(32.8 kB are free)")));
}

TEST_F(PosixFiles, ASmallDiskFillsUp) {
  const auto message = with_own_disk(folder.path(), 1 << 16, DiskState::kWritable, [&] {
    const auto file = files.create(path);
    return failure_of([&] { file->write_at(0, bytes_of(std::string(1 << 17, 'x'))); });
  });
  if (!message) GTEST_SKIP() << "this machine does not allow mounts";
  EXPECT_THAT(*message, AllOf(one_line(path, "No space left on device"), HasSubstr("written")));
}

TEST_F(PosixFiles, AReadOnlyDiskIsReported) {
  const auto message = with_own_disk(folder.path(), 1 << 16, DiskState::kReadOnly, [&] {
    return failure_of([&] { return files.create(path); });
  });
  if (!message) GTEST_SKIP() << "this machine does not allow mounts";
  EXPECT_THAT(*message, AllOf(one_line(path, "Read-only file system"), HasSubstr("another one")));
}

/// @brief Files of this process end at `bytes` until the end of the scope: writes get short.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(PosixFiles, AShortWriteIsGoneOnWithAndItsErrorFound) {
  const auto file = files.create(path);
  const FileSizeLimit limit(4096);
  const std::string text(10'000, 'x');
  EXPECT_THAT(failure_of([&] { file->write_at(0, bytes_of(text)); }),
              one_line(path, "File too large"));
  EXPECT_EQ(fs::file_size(path), 4096U) << "the first call was short";
}

// ---- Reading ------------------------------------------------------------------------------------

TEST_F(PosixFiles, AFileThatEndsTooEarlyIsReported) {
  folder.write("data", "hello world");
  const auto file = files.open_for_reading(path);
  EXPECT_THAT(failure_of([&] { return read_part(*file, 6, 9); }),
              AllOf(one_line(path, "ends at byte 11"), HasSubstr("9 bytes from byte 6"),
                    HasSubstr("cut off")));
  fs::resize_file(path, 3);
  EXPECT_EQ(file->size(), 11U);
  EXPECT_THAT(failure_of([&] { return read_part(*file, 0, 5); }), one_line(path, "ends at byte 3"));
}

TEST_F(PosixFiles, OnlyRegularFilesAreRead) {
  const auto open = [&](const std::string& name) {
    return failure_of([&] { return files.open_for_reading(name); });
  };
  EXPECT_THAT(open(path), AllOf(one_line(path, "No such file or directory"),
                                HasSubstr("opened for reading"), HasSubstr("Check the path")));
  EXPECT_THAT(open(folder.path()), one_line(folder.path(), "Is a directory"));
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(open(path), one_line(path, "a pipe")) << "opening must not wait for a writer";
  EXPECT_THAT(open("/dev/zero"), one_line("/dev/zero", "a device")) << "it never ends";
}

// ---- Folders ------------------------------------------------------------------------------------

TEST_F(PosixFiles, FoldersAreMadeWithThoseOnTheWay) {
  const std::string deep = folder.path("a/b/c");
  files.make_folder(deep);
  EXPECT_TRUE(fs::is_directory(deep));
  EXPECT_NO_THROW(files.make_folder(deep));
  const std::string file = folder.write("file", "text");
  EXPECT_THAT(failure_of([&] { files.make_folder(file); }), one_line(file, "Not a directory"));
  EXPECT_THAT(failure_of([&] { files.make_folder(file + "/inside"); }),
              one_line(file + "/inside", "Not a directory"));
}

TEST_F(PosixFiles, RenameReplacesAFileInOneStep) {
  const std::string old = folder.write("data", "old");
  files.rename(folder.write("fresh", "new"), old);
  EXPECT_EQ(test::read_file(old), "new");
  EXPECT_THAT(folder.names(), ElementsAre("data"));
}

TEST_F(PosixFiles, RenameMovesFoldersButReplacesNoneThatHoldsSomething) {
  folder.write("fresh/file", "new");
  files.rename(folder.path("fresh"), folder.path("final"));
  EXPECT_EQ(test::read_file(folder.path("final/file")), "new");
  folder.write("another/file", "text");
  EXPECT_THAT(failure_of([&] { files.rename(folder.path("another"), folder.path("final")); }),
              AllOf(one_line(folder.path("another"), "not empty"),
                    HasSubstr("moved to '" + folder.path("final") + "'")));
  EXPECT_EQ(test::read_file(folder.path("final/file")), "new");
}

TEST_F(PosixFiles, RenameNeedsSomethingToMove) {
  EXPECT_THAT(failure_of([&] { files.rename(path, folder.path("final")); }),
              one_line(path, "No such file or directory"));
}

TEST_F(PosixFiles, FoldersAreSynced) {
  EXPECT_NO_THROW(files.sync_folder(folder.path()));
  const std::string missing = folder.path("missing");
  EXPECT_THAT(failure_of([&] { files.sync_folder(missing); }),
              one_line(missing, "No such file or directory"));
  const std::string file = folder.write("file", "text");
  EXPECT_THAT(failure_of([&] { files.sync_folder(file); }), one_line(file, "Not a directory"));
}

TEST_F(PosixFiles, RemoveAllTakesWhatIsThere) {
  folder.write("tree/a/b", "text");
  const std::string kept = folder.write("kept/file", "text");
  fs::create_directory_symlink(folder.path("kept"), folder.path("tree/link"));
  files.remove_all(folder.path("tree"));
  EXPECT_THAT(folder.names(), ElementsAre("kept"));
  EXPECT_EQ(test::read_file(kept), "text") << "a link's target is not its content";
  EXPECT_NO_THROW(files.remove_all(folder.path("tree")));
}

TEST_F(PosixFiles, ListIsSortedAndAMissingFolderIsReported) {
  for (const char* name : {"step_10", "step_9", ".hidden", "a"}) folder.write(name, "");
  EXPECT_THAT(files.list(folder.path()), ElementsAre(".hidden", "a", "step_10", "step_9"));
  const std::string missing = folder.path("missing");
  EXPECT_THAT(failure_of([&] { return files.list(missing); }),
              AllOf(one_line(missing, "No such file or directory"), HasSubstr("listed")));
}

TEST_F(PosixFiles, ExistsSaysWhatIsThere) {
  EXPECT_TRUE(files.exists(folder.write("file", "")));
  EXPECT_TRUE(files.exists(folder.path()));
  EXPECT_FALSE(files.exists(path));
  EXPECT_FALSE(files.exists(folder.path("file/inside")));
  fs::create_symlink("nowhere", path);
  EXPECT_FALSE(files.exists(path)) << "a link to nothing";
  const std::string long_name = folder.path(std::string(300, 'a'));
  EXPECT_THAT(failure_of([&] { return files.exists(long_name); }),
              one_line(long_name, "File name too long"));
}

}  // namespace
}  // namespace ultra::checkpoint
