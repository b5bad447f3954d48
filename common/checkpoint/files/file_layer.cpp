#include "common/checkpoint/files/file_layer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/units.hpp"
#include "common/checkpoint/files/descriptor.hpp"
#include "common/checkpoint/files/system_failure.hpp"

namespace ultra::checkpoint {
namespace fs = std::filesystem;
namespace {

/// Refuses a part of a file that would end where no file can.
void expect_possible(std::uint64_t offset, std::uint64_t bytes, const fs::path& path,
                     std::string_view tried) {
  constexpr std::uint64_t kLargest = std::numeric_limits<off_t>::max();
  if (offset > kLargest || bytes > kLargest - offset) fail_file(EFBIG, path, tried);
}

Descriptor open_file(const fs::path& path, int flags, std::string_view tried) {
  constexpr mode_t kReadAndWriteForAll = 0666;  // less the user's umask
  // O_NONBLOCK: opening a pipe must not wait for its other end; regular files do not know it.
  Descriptor file(uninterrupted(
      [&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, kReadAndWriteForAll); }));
  if (file.value() < 0) fail_file(errno, path, tried);
  return file;
}

class PosixOutputFile final : public OutputFile {
 public:
  PosixOutputFile(fs::path path, Descriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    ensure(file_.value() >= 0, "a write to a checkpoint file after its end");
    expect_possible(offset, bytes.size(), path_, kWritten);
    const TransferResult result = transfer_all(bytes.size(), [&](std::size_t done,
                                                                 std::size_t left) {
      return ::pwrite(file_.value(), bytes.data() + done, left, static_cast<off_t>(offset + done));
    });
    if (result.error != 0) fail_file(result.error, path_, kWritten);
    if (result.done < bytes.size()) fail_file(EIO, path_, kWritten);
  }

  void resize(std::uint64_t bytes) override {
    ensure(file_.value() >= 0, "a change of a checkpoint file's size after its end");
    const std::string tried = fmt::format("made {} long", format_bytes(bytes));
    expect_possible(0, bytes, path_, tried);
    const auto size = static_cast<off_t>(bytes);
    expect_space_for(bytes, tried);
    if (uninterrupted([&] { return ::ftruncate(file_.value(), size); }) != 0) {
      fail_file(errno, path_, tried);
    }
    const int error = size == 0 ? 0 : allocate(size);
    // A file system that cannot allocate ahead: the look at the free space has to do.
    if (error != 0 && error != EOPNOTSUPP && error != EINVAL) fail_file(error, path_, tried);
  }

  void sync() override {
    ensure(file_.value() >= 0, "a sync of a checkpoint file after its end");
    // Not tried again after an error: the system may have dropped what it could not write.
    if (uninterrupted([&] { return ::fsync(file_.value()); }) != 0) {
      fail_file(errno, path_, "written to the disk");
    }
  }

  void close() override {
    if (file_.value() < 0) return;
    // A file system may report a failed write as late as here. After EINTR the file is closed too.
    if (::close(file_.release()) != 0 && errno != EINTR) fail_file(errno, path_, kWritten);
  }

 private:
  static constexpr std::string_view kWritten = "written";

  /// Asking first spares others a disk that is full until the file is removed.
  void expect_space_for(std::uint64_t bytes, std::string_view tried) const {
    struct stat file;
    struct statvfs disk;
    if (::fstat(file_.value(), &file) != 0 || ::fstatvfs(file_.value(), &disk) != 0) return;
    if (disk.f_blocks == 0 || disk.f_frsize == 0) return;  // does not say
    constexpr std::uint64_t kStatBlock = 512;
    const std::uint64_t held = static_cast<std::uint64_t>(file.st_blocks) * kStatBlock;
    const std::uint64_t missing = bytes - std::min(bytes, held);
    if (ceil_div(missing, std::uint64_t{disk.f_frsize}) <= disk.f_bavail) return;
    fail(ENOSPC, fmt::format("checkpoint file '{}' cannot be {}", path_.string(), tried),
         fmt::format(" ({} are free)", format_bytes(disk.f_bavail * disk.f_frsize)));
  }

  /// The error's number; 0 when the disk has kept the space.
  [[nodiscard]] int allocate(off_t size) const {
    int error;
    do {
      error = ::posix_fallocate(file_.value(), 0, size);
    } while (error == EINTR);
    return error;
  }

  fs::path path_;
  Descriptor file_;
};

class PosixInputFile final : public InputFile {
 public:
  PosixInputFile(fs::path path, Descriptor file, std::uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    expect_possible(offset, out.size(), path_, "read");
    const TransferResult result = transfer_all(out.size(), [&](std::size_t done, std::size_t left) {
      return ::pread(file_.value(), out.data() + done, left, static_cast<off_t>(offset + done));
    });
    if (result.error != 0) fail_file(result.error, path_, "read");
    if (result.done < out.size()) {
      throw FileError(
          fmt::format("checkpoint file '{}' ends at byte {}, expected {} bytes from "
                      "byte {} on. Was it cut off?",
                      path_.string(), offset + result.done, out.size(), offset));
    }
  }

  [[nodiscard]] std::uint64_t size() const override { return size_; }

 private:
  fs::path path_;
  Descriptor file_;
  std::uint64_t size_;
};

class PosixFileLayer final : public FileLayer {
 public:
  std::unique_ptr<OutputFile> create(const fs::path& path) override {
    // For reading too: where a disk cannot allocate ahead, posix_fallocate reads what it would write.
    return std::make_unique<PosixOutputFile>(path,
                                             open_file(path, O_RDWR | O_CREAT | O_TRUNC, "made"));
  }

  std::unique_ptr<OutputFile> open_for_writing(const fs::path& path) override {
    return std::make_unique<PosixOutputFile>(path, open_file(path, O_RDWR, "opened for writing"));
  }

  std::unique_ptr<InputFile> open_for_reading(const fs::path& path) override {
    constexpr std::string_view kTried = "opened for reading";
    Descriptor file = open_file(path, O_RDONLY, kTried);
    struct stat status;
    if (::fstat(file.value(), &status) != 0) fail_file(errno, path, kTried);
    if (S_ISDIR(status.st_mode)) fail_file(EISDIR, path, kTried);
    if (!S_ISREG(status.st_mode)) {
      throw FileError(fmt::format(
          "checkpoint file '{}' is a device or a pipe, expected a regular file.", path.string()));
    }
    return std::make_unique<PosixInputFile>(path, std::move(file),
                                            static_cast<std::uint64_t>(status.st_size));
  }

  void make_folder(const fs::path& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) fail_folder(error.value(), path, "made");
  }

  void rename(const fs::path& from, const fs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      fail(errno,
           fmt::format("checkpoint '{}' cannot be moved to '{}'", from.string(), to.string()));
    }
  }

  void sync_folder(const fs::path& path) override {
    constexpr std::string_view kTried = "written to the disk";
    const Descriptor folder(
        uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (folder.value() < 0) fail_folder(errno, path, kTried);
    // EINVAL: a file system that has no such thing for folders; there is nothing to wait for.
    if (uninterrupted([&] { return ::fsync(folder.value()); }) != 0 && errno != EINVAL) {
      fail_folder(errno, path, kTried);
    }
  }

  void remove_all(const fs::path& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) fail(error.value(), fmt::format("checkpoint '{}' cannot be removed", path.string()));
  }

  std::vector<std::string> list(const fs::path& folder) override {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    if (error) fail_folder(error.value(), folder, "listed");
    std::sort(names.begin(), names.end());
    return names;
  }

  bool exists(const fs::path& path) override {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::none) {
      fail(error.value(), fmt::format("checkpoint '{}' cannot be looked for", path.string()));
    }
    return fs::exists(status);
  }
};

}  // namespace

FileLayer& posix_files() {
  static PosixFileLayer files;
  return files;
}

TransferResult transfer_all(
    std::size_t bytes, const std::function<ssize_t(std::size_t done, std::size_t left)>& once) {
  TransferResult result;
  while (result.done < bytes) {
    const ssize_t moved = once(result.done, bytes - result.done);
    if (moved > 0) {
      result.done += static_cast<std::size_t>(moved);
    } else if (moved == 0 || errno != EINTR) {
      result.error = moved == 0 ? 0 : errno;
      break;
    }
  }
  return result;
}

}  // namespace ultra::checkpoint
