#pragma once
/// @file
/// ProcessWatch: notices at once when a process of this host has died.

#include <mpi.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/comm/engine/rank_activity.hpp"

namespace ultra::comm::mpi {

/// @brief One page of memory that one process writes and others read. It goes with its processes.
class StatusPage {
 public:
  /// @brief This process's page. Without one (the system has none to give) it says nothing.
  StatusPage();
  StatusPage(const StatusPage&) = delete;
  StatusPage& operator=(const StatusPage&) = delete;
  ~StatusPage();

  /// @brief The descriptor by which others open it; -1 when there is none.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// @brief Writes what this process does; a long text is cut.
  void say(const std::string& text);

  /// @brief What another process says; empty when it says nothing or cannot be read.
  class Reader {
   public:
    /// @brief Opens the page of a process of this host.
    Reader(int process, int descriptor);
    /// @brief What stands there now.
    [[nodiscard]] std::string text() const;

   private:
    std::shared_ptr<const char[]> memory_;  // null when there is none
  };

 private:
  int descriptor_ = -1;
  char* memory_ = nullptr;
};

/// @brief The other processes of this host, seen through pidfds: those tell of a death even before
/// the parent has taken notice, and never mean another process of the same number.
///
/// A process of another host is not seen: there the launcher tells, which ends all when one dies.
class ProcessWatch {
 public:
  /// @brief A process that is no more.
  struct Death {
    int rank;  ///< its number in the world
    int pid;   ///< its process number
  };

  /// @brief Collective over `all`: exchanges process numbers.
  explicit ProcessWatch(MPI_Comm all);
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  ~ProcessWatch();

  /// @brief A process that has died, if one has. Asks the system at most every few milliseconds.
  [[nodiscard]] std::optional<Death> death();
  /// @brief Like death(), but asks now.
  [[nodiscard]] std::optional<Death> death_now();
  /// @brief Whether this rank's process has died, as far as this host sees it.
  [[nodiscard]] bool has_died(int rank) const;

  /// @brief Says what this process waits in, for the others of its host; empty: it computes.
  void say(const std::string& waits_in) { page_.say(waits_in); }
  /// @brief What all processes do, by rank.
  [[nodiscard]] std::vector<RankActivity> activities() const;

 private:
  struct Watched {
    int rank;
    int pid;
    int descriptor;
    StatusPage::Reader page;
  };
  StatusPage page_;
  std::size_t size_ = 1;
  std::vector<Watched> watched_;
  std::chrono::steady_clock::time_point next_look_{};
};

}  // namespace ultra::comm::mpi
