#pragma once
/// @file
/// Completion: how the thread that moves bytes tells the one that waits for them.

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "common/storage/async_file.hpp"

namespace ultra::storage {

/// @brief Set once by a backend, waited for once by the caller.
class Completion {
 public:
  /// @brief The transfer has ended.
  /// @param error  why it failed; null when it did not.
  void finish(const TransferTimes& times, std::exception_ptr error);

  /// @brief Returns when finish() has been called.
  /// @throws its error.
  [[nodiscard]] TransferTimes wait();

  /// @brief The same without the error: the memory is free.
  void join();

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  TransferTimes times_;
  std::exception_ptr error_;
};

/// @brief The handle that waits for a completion.
[[nodiscard]] Transfer transfer_of(std::shared_ptr<Completion> completion);

}  // namespace ultra::storage
