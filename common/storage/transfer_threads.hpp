#pragma once
/// @file
/// TransferThreads: one thread that reads and one that writes, for storage that the system does not
/// read and write asynchronously by itself.

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "common/storage/completion.hpp"

namespace ultra::storage {

/// @brief Two threads with a queue each: reads wait for reads only, writes for writes.
///
/// The destructor ends them when all that was asked for is done.
class TransferThreads {
 public:
  /// Moves all bytes, or throws.
  using Move = std::function<void()>;

  /// @brief Asks for a read.
  [[nodiscard]] Transfer read(Move move) { return reader_.add(std::move(move)); }
  /// @brief Asks for a write.
  [[nodiscard]] Transfer write(Move move) { return writer_.add(std::move(move)); }

 private:
  class Worker {
   public:
    Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    ~Worker();
    [[nodiscard]] Transfer add(Move move);

   private:
    struct Job {
      Move move;
      std::shared_ptr<Completion> completion;
    };
    void work();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Job> jobs_;
    bool ended_ = false;
    std::thread thread_;  // last: it uses the others
  };

  Worker reader_;
  Worker writer_;
};

}  // namespace ultra::storage
