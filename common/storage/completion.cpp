#include "common/storage/completion.hpp"

#include <utility>

namespace ultra::storage {
namespace {

class CompletionTransfer final : public PendingTransfer {
 public:
  explicit CompletionTransfer(std::shared_ptr<Completion> completion)
      : completion_(std::move(completion)) {}
  ~CompletionTransfer() override { completion_->join(); }

  TransferTimes wait() override { return completion_->wait(); }

 private:
  std::shared_ptr<Completion> completion_;
};

}  // namespace

void Completion::finish(const TransferTimes& times, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  times_ = times;
  error_ = std::move(error);
  done_ = true;
  finished_.notify_all();  // under the lock: the waiter may destroy this as soon as it is free
}

TransferTimes Completion::wait() {
  join();
  if (error_) std::rethrow_exception(error_);
  return times_;
}

void Completion::join() {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return done_; });
}

Transfer transfer_of(std::shared_ptr<Completion> completion) {
  return Transfer(std::make_unique<CompletionTransfer>(std::move(completion)));
}

}  // namespace ultra::storage
