#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "common/base/errors.hpp"
#include "common/storage/storage.hpp"

namespace ultra::storage {
namespace {

using Clock = TransferTimes::Clock;

class PacedTransfer final : public PendingTransfer {
 public:
  PacedTransfer(Transfer inner, const TransferTimes& on_the_line)
      : inner_(std::move(inner)), on_the_line_(on_the_line) {}

  TransferTimes wait() override {
    const TransferTimes done = inner_.wait();
    std::this_thread::sleep_until(on_the_line_.end);
    return {.begin = on_the_line_.begin, .end = std::max(on_the_line_.end, done.end)};
  }

 private:
  Transfer inner_;
  TransferTimes on_the_line_;
};

/// One direction of the line.
class Line {
 public:
  explicit Line(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  /// When so many bytes pass, behind those before them.
  TransferTimes pass(std::size_t bytes) {
    const Clock::time_point begin = std::max(Clock::now(), free_at_);
    const std::chrono::duration<double> seconds(static_cast<double>(bytes) / bytes_per_second_);
    free_at_ = begin + std::chrono::duration_cast<Clock::duration>(seconds);
    return {.begin = begin, .end = free_at_};
  }

 private:
  double bytes_per_second_;
  Clock::time_point free_at_;
};

class PacedFile final : public AsyncFile {
 public:
  PacedFile(std::unique_ptr<AsyncFile> file, double bytes_per_second)
      : file_(std::move(file)), reads_(bytes_per_second), writes_(bytes_per_second) {}

  Transfer read_async(std::uint64_t offset, std::span<std::byte> out) override {
    return behind(file_->read_async(offset, out), reads_.pass(out.size()));
  }

  Transfer write_async(std::uint64_t offset, std::span<const std::byte> bytes) override {
    return behind(file_->write_async(offset, bytes), writes_.pass(bytes.size()));
  }

  std::uint64_t size() const override { return file_->size(); }

 private:
  static Transfer behind(Transfer inner, const TransferTimes& on_the_line) {
    return Transfer(std::make_unique<PacedTransfer>(std::move(inner), on_the_line));
  }

  std::unique_ptr<AsyncFile> file_;
  Line reads_;
  Line writes_;
};

}  // namespace

std::unique_ptr<AsyncFile> paced(std::unique_ptr<AsyncFile> file, double gigabytes_per_second) {
  ensure(gigabytes_per_second > 0, "a line has some bandwidth");
  return std::make_unique<PacedFile>(std::move(file), 1e9 * gigabytes_per_second);
}

}  // namespace ultra::storage
