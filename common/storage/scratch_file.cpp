#include "common/storage/scratch_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <limits>
#include <system_error>

#include "common/base/numeric.hpp"
#include "common/base/units.hpp"

namespace ultra::storage {
namespace fs = std::filesystem;
namespace {

constexpr mode_t kForTheUserOnly = 0600;

/// What the system says, and what to do about it.
std::string reason(int error) {
  const std::string said = std::generic_category().message(error);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return fmt::format(
          "the disk is full ({}). Free some space, or give a folder on another disk.", said);
    case EACCES:
    case EPERM:
      return said + ". Check the permissions of the folder and of those on the way to it.";
    case EROFS:
      return said + ". Give a folder on a disk that is not mounted read-only.";
    case ENOENT:
    case ENOTDIR:
      return said + ". Make the folder, or give another one.";
    default:
      return said + ".";
  }
}

/// A file system without O_TMPFILE says so with one of these.
bool has_no_nameless_files(int error) {
  return error == EOPNOTSUPP || error == EISDIR || error == EINVAL;
}

/// A descriptor, or -1 and errno.
int open_nameless(const fs::path& folder) {
  const int direct = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kForTheUserOnly);
  if (direct >= 0 || !has_no_nameless_files(errno)) return direct;
  std::string path = (folder / "ultra-scratch-XXXXXX").string();
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

}  // namespace

ScratchFile::ScratchFile(const fs::path& folder, std::uint64_t bytes)
    : name_(fmt::format("scratch file in '{}'", folder.string())),
      size_(bytes),
      descriptor_(open_nameless(folder)) {
  if (descriptor_ < 0) throw failure(errno, "made");
  try {
    take_space();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

ScratchFile::~ScratchFile() { ::close(descriptor_); }

void ScratchFile::take_space() const {
  const std::string tried = fmt::format("made {} long", format_bytes(size_));
  if (size_ > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
    throw failure(EFBIG, tried);
  }
  struct statvfs disk;
  // Asking first spares others a disk that is full until the allocation has failed.
  if (::fstatvfs(descriptor_, &disk) == 0 && disk.f_frsize > 0 && disk.f_blocks > 0 &&
      ceil_div(size_, std::uint64_t{disk.f_frsize}) > disk.f_bavail) {
    throw failure(ENOSPC, tried);
  }
  const auto length = static_cast<off_t>(size_);
  if (::ftruncate(descriptor_, length) != 0) throw failure(errno, tried);
  int error = 0;
  do {
    error = length == 0 ? 0 : ::posix_fallocate(descriptor_, 0, length);
  } while (error == EINTR);
  // A file system that cannot allocate ahead: the look at the free space has to do.
  if (error != 0 && error != EOPNOTSUPP && error != EINVAL) throw failure(error, tried);
}

FileError ScratchFile::failure(int error, std::string_view tried) const {
  return FileError(fmt::format("{} cannot be {}: {}", name_, tried, reason(error)));
}

FileError ScratchFile::end_of_file(std::uint64_t found, std::uint64_t offset,
                                   std::size_t expected) const {
  return FileError(fmt::format(
      "{} ends at byte {}, expected {} bytes from byte {} on. Did another program cut it "
      "off?",
      name_, found, expected, offset));
}

}  // namespace ultra::storage
