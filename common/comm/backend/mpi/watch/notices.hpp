#pragma once
/// @file
/// Notices: what processes tell each other beside the ranks' messages: that a run begins, that it has
/// ended and how, that the program leaves.
///
/// Every notice goes from each process to each other one, as a small message that never waits for
/// its receiver. That names whoever is missing, and one process's failure holds up nobody. Cost: P-1
/// messages per process and notice, for the few hundred processes at most that this is meant for.

#include <mpi.h>

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "common/comm/comm_error.hpp"

namespace ultra::comm::mpi {

/// @brief What is known of a failure.
struct Failure {
  int rank = 0;                       ///< the guilty one
  ErrorKind kind = ErrorKind::kComm;  ///< of its error
  std::string text{};                 ///< what it said, or what was seen of it
};

/// @brief The notices of all processes, as far as they have come. Calls are made under the lock of
/// the session.
class Notices {
 public:
  /// @brief How far a process is. Runs are counted from 1, alike on every process.
  struct Standing {
    std::uint32_t begun = 0;  ///< the last run that it began
    int world_size = 0;       ///< of that run
    std::uint32_t ended = 0;  ///< the last run that it ended
    bool left = false;        ///< its program has ended
  };

  /// @brief Collective over MPI_COMM_WORLD.
  Notices();
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  /// @brief Tells all that this process begins a run.
  void tell_begin(std::uint32_t run, int world_size);
  /// @brief Tells all that this process has ended a run, and of the failure that ended it.
  void tell_end(std::uint32_t run, const std::optional<Failure>& failure);
  /// @brief Tells all that this program ends.
  void tell_leave();

  /// @brief Takes what has come.
  void poll();
  /// @brief By rank; this process's own standing included.
  [[nodiscard]] const std::vector<Standing>& standings() const { return standings_; }
  /// @brief The failure of a run, as soon as one is known.
  [[nodiscard]] std::optional<Failure> failure_of(std::uint32_t run) const;
  /// @brief Notes a failure that this process has seen.
  void note_failure(std::uint32_t run, const Failure& failure);

 private:
  enum class Kind : std::int32_t { kBegin, kEnd, kFailedEnd, kLeave };
  struct Header {
    Kind kind;
    std::uint32_t run;
    std::int32_t value;  // kBegin: the world's size; kFailedEnd: the guilty rank
    ErrorKind error;     // kFailedEnd: of its error
  };
  struct Sent {
    std::vector<char> bytes;
    std::vector<MPI_Request> requests;
  };
  // Below what any network of MPI's sends at once, without asking the receiver.
  static constexpr std::size_t kLongest = 3800;

  void tell(const Header& header, const std::string& text);
  void listen();
  void take(int from, std::size_t bytes);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  std::vector<Standing> standings_;
  std::uint32_t failed_run_ = 0;
  Failure failure_;
  std::array<char, kLongest> incoming_{};
  MPI_Request listening_ = MPI_REQUEST_NULL;
  std::list<Sent> sent_;
};

}  // namespace ultra::comm::mpi
