#include "common/storage/pool_file.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/storage/transfer_threads.hpp"

namespace ultra::storage {
namespace {

class PoolFile final : public AsyncFile {
 public:
  explicit PoolFile(std::unique_ptr<ScratchFile> file) : file_(std::move(file)) {}

  Transfer read_async(std::uint64_t offset, std::span<std::byte> out) override {
    expect_in_file(offset, out.size(), file_->size());
    return threads_.read([this, offset, out] { read_all(offset, out); });
  }

  Transfer write_async(std::uint64_t offset, std::span<const std::byte> bytes) override {
    expect_in_file(offset, bytes.size(), file_->size());
    return threads_.write([this, offset, bytes] { write_all(offset, bytes); });
  }

  std::uint64_t size() const override { return file_->size(); }

 private:
  void read_all(std::uint64_t offset, std::span<std::byte> out) const {
    for (std::size_t done = 0; done < out.size();) {
      const ssize_t count = ::pread(file_->descriptor(), out.data() + done, out.size() - done,
                                    static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw file_->failure(errno, "read");
      if (count == 0) throw file_->end_of_file(offset + done, offset, out.size());
      done += static_cast<std::size_t>(count);
    }
  }

  void write_all(std::uint64_t offset, std::span<const std::byte> bytes) const {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::pwrite(file_->descriptor(), bytes.data() + done, bytes.size() - done,
                                     static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) throw file_->failure(count < 0 ? errno : EIO, "written");
      done += static_cast<std::size_t>(count);
    }
  }

  std::unique_ptr<ScratchFile> file_;
  TransferThreads threads_;  // ends before the file is closed
};

}  // namespace

void expect_in_file(std::uint64_t offset, std::size_t count, std::uint64_t size) {
  ensure(offset <= size && count <= size - offset, "a transfer leaves its file");
}

std::unique_ptr<AsyncFile> pool_file(std::unique_ptr<ScratchFile> file) {
  return std::make_unique<PoolFile>(std::move(file));
}

}  // namespace ultra::storage
