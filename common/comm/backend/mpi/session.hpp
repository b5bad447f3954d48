#pragma once
/// @file
/// Session: MPI in this process, from its first use to the program's end.
///
/// Ranks are single processes, but their communication may be driven by two threads: the rank's own
/// and the progress thread. MPI is asked for MPI_THREAD_SERIALIZED, and every call of it is made
/// under the session's lock, which costs less than MPI_THREAD_MULTIPLE's locks inside the library.

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/comm/backend/mpi/watch/notices.hpp"
#include "common/comm/backend/mpi/watch/process_watch.hpp"

namespace ultra::comm::mpi {

/// @brief Where a message goes or comes from.
struct Address {
  MPI_Comm comm;  ///< the group
  int peer;       ///< rank in the group
  int tag;        ///< MPI's
  bool operator==(const Address&) const = default;
};

/// @brief The receives that wait, in the order in which they were begun.
class WaitingLine {
 public:
  /// @brief Joins the line; `receive` is only a name here.
  void enter(const void* receive, const Address& from) { line_.push_back({receive, from}); }
  /// @brief Leaves the line; does nothing for one who has left.
  void leave(const void* receive) {
    std::erase_if(line_, [&](const WaitingReceive& waiting) { return waiting.receive == receive; });
  }
  /// @brief Whether the next message from there is for `receive`.
  [[nodiscard]] bool is_first(const void* receive, const Address& from) const {
    const auto first = std::ranges::find(line_, from, &WaitingReceive::from);
    return first != line_.end() && first->receive == receive;
  }

 private:
  struct WaitingReceive {
    const void* receive;
    Address from;
  };
  std::vector<WaitingReceive> line_;
};

/// @brief Throws CommError with MPI's own text unless `code` is success.
/// @param call  the name of the function that returned it.
void check(int code, const char* call);

/// @brief MPI in this process. Deviation from "no global state": MPI itself is a global of the
/// process, which can be initialised once and never again.
class Session {
 public:
  /// What keeps two threads out of MPI at once.
  using Lock = std::unique_lock<std::recursive_mutex>;

  /// @brief The session; the first call initialises MPI and arranges for its end at exit.
  /// @param timeout  of the first call: a process that waits longer for the others says so and ends.
  [[nodiscard]] static Session& start(std::chrono::duration<double> timeout);
  /// @brief The session, if it was started; else null.
  [[nodiscard]] static Session* find();

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// @brief This process's rank among those that were launched.
  [[nodiscard]] int rank() const { return rank_; }
  /// @brief How many were launched.
  [[nodiscard]] int size() const { return size_; }
  /// @brief Bits of an MPI tag that may be used.
  [[nodiscard]] int tag_bits() const { return tag_bits_; }

  /// @brief To be held around every call of MPI.
  [[nodiscard]] Lock lock() { return Lock(mutex_); }

  /// @brief What processes tell each other beside the ranks' messages.
  [[nodiscard]] Notices& notices() { return *notices_; }
  /// @brief Which processes still live.
  [[nodiscard]] ProcessWatch& watch() { return *watch_; }

  /// @brief How many messages have moved since the start: grows, never shrinks.
  [[nodiscard]] std::uint64_t moved() const { return moved_.load(std::memory_order_relaxed); }
  /// @brief A message has moved.
  void count_move() { moved_.fetch_add(1, std::memory_order_relaxed); }

  /// @brief The receives that wait.
  [[nodiscard]] WaitingLine& line() { return line_; }

  /// @brief Memory for arriving segments, kScratchBytes long; kept for the next one who asks.
  [[nodiscard]] std::shared_ptr<std::byte[]> take_scratch();
  /// @brief Gives scratch memory back.
  void return_scratch(std::shared_ptr<std::byte[]> scratch);
  /// @brief Bytes of what take_scratch gives.
  static constexpr std::size_t kScratchBytes = std::size_t{1} << 20U;

  /// @brief Lets the messages that are half way through pass, for a moment; true when this one has.
  [[nodiscard]] bool ends_soon(MPI_Request& request);
  /// @brief Keeps a request that cannot be withdrawn, and the memory it uses, until it has ended.
  void bury(MPI_Request request, std::shared_ptr<const void> memory);
  /// @brief Lets go of the buried requests that have ended.
  void tend();

  /// @brief Gives MPI up: a process is lost, so calls that need all of them would never return.
  /// @param why  what later runs are told.
  void give_up(const std::string& why);
  /// @brief Why MPI was given up; empty as long as it was not.
  [[nodiscard]] const std::string& given_up() const { return given_up_; }

 private:
  struct Buried {
    MPI_Request request;
    std::shared_ptr<const void> memory;
  };

  explicit Session(std::chrono::duration<double> timeout);
  static void finish_at_exit();
  void finish();

  std::recursive_mutex mutex_;
  int rank_ = 0;
  int size_ = 1;
  int tag_bits_ = 15;
  std::unique_ptr<Notices> notices_;
  std::unique_ptr<ProcessWatch> watch_;
  std::atomic<std::uint64_t> moved_{0};
  WaitingLine line_;
  std::vector<std::shared_ptr<std::byte[]>> scratch_;
  std::list<Buried> buried_;
  std::string given_up_;
};

}  // namespace ultra::comm::mpi
