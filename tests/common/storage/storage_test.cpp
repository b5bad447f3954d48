// Every kind of storage: what was written is read, whatever the order; errors come at wait().
//
// Covers: common/storage/async_file.hpp, common/storage/storage.hpp, common/storage/completion.hpp,
// Covers: common/storage/pool_file.hpp, common/storage/transfer_threads.hpp,
// Covers: common/storage/backend/uring/uring_file.hpp
// Covers: common/storage/scratch_file.hpp

#include "common/storage/storage.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "common/storage/backend/uring/uring_file.hpp"
#include "common/storage/pool_file.hpp"
#include "common/storage/scratch_file.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::storage {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

/// The kinds of storage by name.
class StorageTest : public test::RandomTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (kind() == "io_uring" && !uring_works()) {
      GTEST_SKIP() << "this machine has no io_uring, or its kernel refuses it";
    }
  }

  [[nodiscard]] static std::string kind() { return GetParam(); }

  [[nodiscard]] std::unique_ptr<AsyncFile> open(std::uint64_t bytes) const {
    if (kind() == "memory") return host_memory(bytes);
    if (kind() == "paced") return paced(host_memory(bytes), 100);
    return open_scratch_file(folder.path(), bytes,
                             kind() == "io_uring" ? Backend::kIoUring : Backend::kThreads);
  }

  Bytes draw_bytes(std::size_t count) {
    Bytes bytes(count);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.between(0, 255));
    return bytes;
  }

  test::TemporaryFolder folder;
};

class FileStorage : public StorageTest {
 protected:
  /// This process's descriptor of the scratch file.
  [[nodiscard]] static std::string path_in_proc(const std::string& folder) {
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const fs::path target = fs::read_symlink(entry.path(), error);
      if (!error && target.string().starts_with(folder)) return entry.path().string();
    }
    return {};
  }
};

Bytes read(AsyncFile& file, std::uint64_t offset, std::size_t count) {
  Bytes bytes(count, std::byte{0xAB});
  file.read_async(offset, bytes).wait();
  return bytes;
}

TEST_P(StorageTest, KeepsWhatIsWrittenAtAnyOffset) {
  constexpr std::size_t kSize = 300'000;
  const auto file = open(kSize);
  Bytes expected(kSize);
  for (int i = 0; i < 50; ++i) {
    const std::size_t begin = random.between(0, kSize);
    const Bytes part = draw_bytes(random.between(0, std::min<std::size_t>(kSize - begin, 40'000)));
    file->write_async(begin, part).wait();
    std::copy(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  EXPECT_TRUE(read(*file, 0, kSize) == expected);
  Bytes four(4);
  EXPECT_THROW(static_cast<void>(file->read_async(kSize - 3, four)), InternalError);
  EXPECT_THROW(static_cast<void>(file->write_async(kSize + 1, {})), InternalError);
}

TEST_P(StorageTest, ManyTransfersMayBeUnderWayAndWaitedForInAnyOrder) {
  constexpr std::size_t kBlock = 5'000;
  constexpr std::size_t kBlocks = 200;  // more than a ring has entries
  const auto file = open(kBlock * kBlocks);
  const Bytes all = draw_bytes(kBlock * kBlocks);
  std::vector<Transfer> writes;
  for (std::size_t b = 0; b < kBlocks; ++b) {
    writes.push_back(file->write_async(b * kBlock, std::span(all).subspan(b * kBlock, kBlock)));
  }
  while (!writes.empty()) {
    const auto next = static_cast<std::ptrdiff_t>(random.between(0, writes.size() - 1));
    const TransferTimes times = writes[static_cast<std::size_t>(next)].wait();
    EXPECT_LE(times.begin, times.end);
    writes.erase(writes.begin() + next);
  }
  Bytes found(all.size());
  std::vector<Transfer> reads;
  for (std::size_t b = kBlocks; b-- > 0;) {
    reads.push_back(file->read_async(b * kBlock, std::span(found).subspan(b * kBlock, kBlock)));
  }
  for (Transfer& transfer : reads) transfer.wait();
  EXPECT_TRUE(found == all);
}

TEST_P(StorageTest, LettingGoOfATransferWaitsUntilTheMemoryIsFree) {
  const Bytes written = draw_bytes(1'000'000);
  const auto file = open(written.size());
  for (int i = 0; i < 10; ++i) {
    const Bytes shortlived = written;
    static_cast<void>(file->write_async(0, shortlived));
  }
  EXPECT_TRUE(read(*file, 0, written.size()) == written);
}

TEST_P(FileStorage, TakesItsSpaceAtOnce) {
  const auto file = open(1'000'000);
  struct stat status;
  ASSERT_EQ(::stat(path_in_proc(folder.path()).c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 1'000'000);
  EXPECT_GE(status.st_blocks * 512, 1'000'000);
}

TEST_P(FileStorage, AFileThatWasCutOffSaysWhatWasExpectedAndFound) {
  const auto file = open(100'000);
  ASSERT_EQ(::truncate(path_in_proc(folder.path()).c_str(), 60'000), 0);
  Bytes bytes(50'000);
  Transfer transfer = file->read_async(40'000, bytes);
  EXPECT_THAT(message_of<FileError>([&] { transfer.wait(); }),
              AllOf(HasSubstr("'" + folder.path() + "'"), HasSubstr("ends at byte 60000"),
                    HasSubstr("expected 50000 bytes from byte 40000"), Not(HasSubstr("\n"))));
}

TEST_P(FileStorage, AMissingFolderIsNamed) {
  const std::string missing = folder.path("not/there");
  const Backend backend = kind() == "io_uring" ? Backend::kIoUring : Backend::kThreads;
  EXPECT_THAT(message_of<FileError>([&] { return open_scratch_file(missing, 10, backend); }),
              AllOf(HasSubstr("'" + missing + "' cannot be made"),
                    HasSubstr("No such file or directory"), HasSubstr("Make the folder")));
}

TEST_P(FileStorage, AFolderThatMayNotBeWrittenToIsNamed) {
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  {
    const test::WithoutPrivileges user;
    EXPECT_THAT(message_of<FileError>([&] { return open(10); }),
                AllOf(HasSubstr(folder.path()), HasSubstr("Check the permissions")));
  }
  fs::permissions(folder.path(), fs::perms::owner_all);
}

TEST_P(FileStorage, ADiskThatIsTooSmallIsFoundAtTheStart) {
  constexpr std::uint64_t kPetabyte = 1'000'000'000'000'000;
  EXPECT_THAT(message_of<FileError>([&] { return open(kPetabyte); }),
              AllOf(HasSubstr(folder.path()), HasSubstr("cannot be made"),
                    HasSubstr("the disk is full"), HasSubstr("Free some space")));
  EXPECT_THAT(folder.names(), IsEmpty());
}

/// A system call that fails: the descriptor is replaced by one that cannot read, or not write.
TEST_P(FileStorage, ErrorsOfTheSystemComeWhenWaitedFor) {
  const auto file = open(1000);
  const std::string path = path_in_proc(folder.path());
  ASSERT_NE(path, "");
  const int descriptor = std::stoi(fs::path(path).filename().string());
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  ASSERT_EQ(::dup2(full, descriptor), descriptor);
  ::close(full);
  Bytes bytes(1000);
  Transfer write = file->write_async(0, bytes);
  EXPECT_THAT(message_of<FileError>([&] { write.wait(); }),
              AllOf(HasSubstr("cannot be written: the disk is full"), HasSubstr(folder.path())));
  Transfer read_back = file->read_async(0, bytes);
  EXPECT_THAT(message_of<FileError>([&] { read_back.wait(); }),
              AllOf(HasSubstr("cannot be read: "), HasSubstr(folder.path())));
}

INSTANTIATE_TEST_SUITE_P(Kinds, StorageTest,
                         ::testing::Values("threads", "io_uring", "memory", "paced"),
                         [](const auto& of) { return std::string(of.param); });
INSTANTIATE_TEST_SUITE_P(Kinds, FileStorage, ::testing::Values("threads", "io_uring"),
                         [](const auto& of) { return std::string(of.param); });

TEST(Storage, TheHostsMemoryHasAnEnd) {
  EXPECT_THAT(message_of<OutOfMemory>([] { return host_memory(~std::uint64_t{0}); }),
              HasSubstr("the host has no"));
}

/// Each direction is a line of its own; the end of a transfer is when its bytes have passed.
TEST(Storage, ALineLetsBytesPassOneAfterTheOther) {
  const auto file = paced(host_memory(3'000'000), 0.01);  // 1 MB in 100 ms
  Bytes bytes(1'000'000);
  Bytes more(2'000'000);
  Transfer first = file->read_async(0, bytes);
  Transfer second = file->read_async(0, more);
  const Bytes few(1'000);
  Transfer write = file->write_async(2'500'000, few);
  const TransferTimes one = first.wait();
  const TransferTimes two = second.wait();
  const TransferTimes beside = write.wait();
  EXPECT_GE(one.seconds(), 0.1 - 1e-6);
  EXPECT_GE(two.seconds(), 0.2 - 1e-6);
  EXPECT_GE(two.begin, one.begin);
  EXPECT_LE(beside.begin, two.end) << "a write does not wait for the reads";
}

TEST(ScratchFile, HasItsLengthAndNoName) {
  const test::TemporaryFolder folder;
  const ScratchFile file(folder.path(), 12'345);
  struct stat status;
  ASSERT_EQ(::fstat(file.descriptor(), &status), 0);
  EXPECT_EQ(status.st_size, 12'345);
  EXPECT_EQ(status.st_nlink, 0U);
  EXPECT_EQ(file.size(), 12'345U);
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

}  // namespace
}  // namespace ultra::storage
