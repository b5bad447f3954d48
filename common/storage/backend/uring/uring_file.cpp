#include "common/storage/backend/uring/uring_file.hpp"

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <thread>
#include <utility>

#include "common/base/errors.hpp"
#include "common/storage/completion.hpp"
#include "common/storage/pool_file.hpp"

namespace ultra::storage {
namespace {

constexpr unsigned kEntries = 64;
constexpr std::size_t kLargestRequest = std::size_t{1} << 30;  // its length is an int

/// A read or a write, and how far it is.
struct Request {
  std::uint64_t offset = 0;
  std::byte* memory = nullptr;
  std::size_t count = 0;
  bool writes = false;
  std::size_t done = 0;
  TransferTimes times{};
  std::shared_ptr<Completion> completion{};
};

class UringFile final : public AsyncFile {
 public:
  explicit UringFile(std::unique_ptr<ScratchFile> file) : file_(std::move(file)) {
    const int error = -::io_uring_queue_init(kEntries, &ring_, 0);
    if (error != 0) throw file_->failure(error, "opened through io_uring");
    collector_ = std::thread([this] { collect(); });
  }

  ~UringFile() override {
    {
      const std::lock_guard lock(mutex_);
      io_uring_sqe* end = ::io_uring_get_sqe(&ring_);
      ::io_uring_prep_nop(end);
      ::io_uring_sqe_set_data(end, nullptr);
      ::io_uring_submit(&ring_);
    }
    collector_.join();
    ::io_uring_queue_exit(&ring_);
  }

  Transfer read_async(std::uint64_t offset, std::span<std::byte> out) override {
    return begin({.offset = offset, .memory = out.data(), .count = out.size()});
  }

  Transfer write_async(std::uint64_t offset, std::span<const std::byte> bytes) override {
    // The kernel does not change what it writes; one structure serves both directions.
    auto* memory = const_cast<std::byte*>(bytes.data());  // NOLINT(*-const-cast)
    return begin({.offset = offset, .memory = memory, .count = bytes.size(), .writes = true});
  }

  std::uint64_t size() const override { return file_->size(); }

 private:
  Transfer begin(Request asked) {
    expect_in_file(asked.offset, asked.count, file_->size());
    auto request = std::make_unique<Request>(std::move(asked));
    request->completion = std::make_shared<Completion>();
    request->times.begin = TransferTimes::Clock::now();
    Transfer transfer = transfer_of(request->completion);
    submit(std::move(request));
    return transfer;
  }

  /// Asks the kernel for what is left of a request.
  void submit(std::unique_ptr<Request> request) {
    if (request->done == request->count) return finish(*request, nullptr);
    const std::lock_guard lock(mutex_);
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    ensure(entry != nullptr, "every request is submitted at once, so the ring has room");
    const auto length =
        static_cast<unsigned>(std::min(request->count - request->done, kLargestRequest));
    std::byte* memory = request->memory + request->done;
    const std::uint64_t offset = request->offset + request->done;
    if (request->writes) {
      ::io_uring_prep_write(entry, file_->descriptor(), memory, length, offset);
    } else {
      ::io_uring_prep_read(entry, file_->descriptor(), memory, length, offset);
    }
    ::io_uring_sqe_set_flags(entry, IOSQE_ASYNC);
    ::io_uring_sqe_set_data(entry, request.get());
    int submitted = 0;
    do {
      submitted = ::io_uring_submit(&ring_);
    } while (submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY);
    if (submitted < 0) {
      ::io_uring_prep_nop(entry);  // what the ring still holds must not name the request
      ::io_uring_sqe_set_data(entry, this);
      return finish(*request, failure(*request, -submitted));
    }
    static_cast<void>(request.release());  // the kernel has it until collect()
  }

  void collect() {
    while (true) {
      io_uring_cqe* entry = nullptr;
      const int error = ::io_uring_wait_cqe(&ring_, &entry);
      if (error != 0) continue;  // a signal
      void* data = ::io_uring_cqe_get_data(entry);
      const int result = entry->res;
      ::io_uring_cqe_seen(&ring_, entry);
      if (data == nullptr) return;
      if (data == this) continue;
      // The kernel may be done before submit() has let go of the request.
      { const std::lock_guard lock(mutex_); }
      advance(std::unique_ptr<Request>(static_cast<Request*>(data)), result);
    }
  }

  /// The kernel has done something of a request.
  void advance(std::unique_ptr<Request> request, int result) {
    if (result == -EINTR || result == -EAGAIN) return submit(std::move(request));
    if (result < 0) return finish(*request, failure(*request, -result));
    if (result == 0) {
      return finish(*request, request->writes ? failure(*request, EIO) : cut_off(*request));
    }
    request->done += static_cast<std::size_t>(result);
    submit(std::move(request));
  }

  [[nodiscard]] std::exception_ptr failure(const Request& request, int error) const {
    return std::make_exception_ptr(file_->failure(error, request.writes ? "written" : "read"));
  }

  [[nodiscard]] std::exception_ptr cut_off(const Request& request) const {
    return std::make_exception_ptr(
        file_->end_of_file(request.offset + request.done, request.offset, request.count));
  }

  static void finish(Request& request, std::exception_ptr error) {
    request.times.end = TransferTimes::Clock::now();
    request.completion->finish(request.times, std::move(error));
  }

  std::unique_ptr<ScratchFile> file_;
  io_uring ring_{};
  std::mutex mutex_;  // of the ring's entrance
  std::thread collector_;
};

bool makes_a_ring() {
  io_uring ring{};
  if (::io_uring_queue_init(1, &ring, 0) != 0) return false;
  ::io_uring_queue_exit(&ring);
  return true;
}

}  // namespace

bool uring_works() {
  static const bool works = makes_a_ring();
  return works;
}

std::unique_ptr<AsyncFile> uring_file(std::unique_ptr<ScratchFile> file) {
  return std::make_unique<UringFile>(std::move(file));
}

}  // namespace ultra::storage
