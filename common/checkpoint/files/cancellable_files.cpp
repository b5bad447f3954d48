#include "common/checkpoint/files/cancellable_files.hpp"

#include <algorithm>
#include <utility>

#include "common/base/interrupt.hpp"

namespace ultra::checkpoint {
namespace {

class CancellableFile final : public OutputFile {
 public:
  CancellableFile(std::unique_ptr<OutputFile> file, const std::atomic<bool>& cancelled)
      : file_(std::move(file)), cancelled_(cancelled) {}

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    while (bytes.size() > kCancellablePiece) {
      expect_wanted();
      file_->write_at(offset, bytes.first(kCancellablePiece));
      file_->sync();
      offset += kCancellablePiece;
      bytes = bytes.subspan(kCancellablePiece);
    }
    expect_wanted();
    file_->write_at(offset, bytes);
  }
  void resize(std::uint64_t bytes) override { file_->resize(bytes); }
  void sync() override {
    expect_wanted();
    file_->sync();
  }
  void close() override { file_->close(); }

 private:
  void expect_wanted() const {
    if (cancelled_) throw Interrupted("the writing of a file was told to stop");
  }

  std::unique_ptr<OutputFile> file_;
  const std::atomic<bool>& cancelled_;
};

}  // namespace

std::unique_ptr<OutputFile> CancellableFiles::create(const std::filesystem::path& path) {
  return std::make_unique<CancellableFile>(files_.create(path), cancelled_);
}

std::unique_ptr<OutputFile> CancellableFiles::open_for_writing(const std::filesystem::path& path) {
  return std::make_unique<CancellableFile>(files_.open_for_writing(path), cancelled_);
}

}  // namespace ultra::checkpoint
