#include "common/storage/transfer_threads.hpp"

#include <exception>
#include <utility>

namespace ultra::storage {

TransferThreads::Worker::Worker() : thread_([this] { work(); }) {}

TransferThreads::Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Transfer TransferThreads::Worker::add(Move move) {
  auto completion = std::make_shared<Completion>();
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({.move = std::move(move), .completion = completion});
  }
  changed_.notify_all();
  return transfer_of(std::move(completion));
}

void TransferThreads::Worker::work() {
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    TransferTimes times{.begin = TransferTimes::Clock::now(), .end = {}};
    std::exception_ptr error;
    try {
      job.move();
    } catch (...) {
      error = std::current_exception();
    }
    times.end = TransferTimes::Clock::now();
    job.completion->finish(times, std::move(error));
  }
}

}  // namespace ultra::storage
