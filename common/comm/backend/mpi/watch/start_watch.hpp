#pragma once
/// @file
/// StartWatch: MPI_Init waits for all processes, without end when one never comes.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ultra::comm::mpi {

/// @brief While it lives, a thread looks whether the start of MPI takes too long or the launcher ends
/// this process. Then it says so and ends the process: nothing else can leave MPI_Init.
class StartWatch {
 public:
  /// @param timeout  how long the other processes may take.
  explicit StartWatch(std::chrono::duration<double> timeout);
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;
  ~StartWatch();

 private:
  void watch();
  [[nodiscard]] bool has_started(std::chrono::milliseconds within);

  std::chrono::duration<double> timeout_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool started_ = false;
  std::thread thread_;
};

}  // namespace ultra::comm::mpi
