#pragma once
/// @file
/// Ranks as threads of one process, and ThreadWorld: what they share.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/comm/backend/rank_body.hpp"
#include "common/comm/backend/threads/direct_board.hpp"
#include "common/comm/engine/rank_activity.hpp"
#include "common/comm/engine/rank_monitor.hpp"
#include "common/comm/transport.hpp"

/// @brief Ranks as threads of one process, which see each other's memory.
namespace ultra::comm::threads {

/// @brief A rank's bell: rung when something has happened for it.
class Bell {
 public:
  /// @brief How often it was rung.
  [[nodiscard]] std::uint64_t count() const { return count_.load(); }
  /// @brief Rings; wakes who sleeps.
  void ring();
  /// @brief Sleeps until count() differs from `seen` or `until` has come.
  void sleep(std::uint64_t seen, RankMonitor::Clock::time_point until);

 private:
  std::atomic<std::uint64_t> count_{0};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
};

/// @brief Which messages belong to which receives: those of one sender, group and tag, in order.
struct Envelope {
  int source;             ///< the sender's rank in the world
  std::uint64_t context;  ///< of the group
  Tag tag;                ///< of the message
  bool operator==(const Envelope&) const = default;
};

/// @brief A message that its sender has put up; the receiver copies it from the sender's memory.
struct Posted {
  /// Who may touch the sender's memory.
  enum class Stage : std::uint8_t { kWaiting, kTaken, kDone };

  Envelope envelope;                ///< whose it is
  std::span<const std::byte> data;  ///< the sender's
  Place place;                      ///< where they are
  gpu::Event taken;                 ///< on a device: when they were read; set before kDone
  std::atomic<Stage> stage{Stage::kWaiting};  ///< where it stands

  /// @brief A message that nobody has taken yet.
  Posted(const Envelope& belongs_to, const Parcel& parcel)
      : envelope(belongs_to), data(parcel.memory), place(parcel.place) {}
};

/// @brief The messages that wait for one rank, in the order in which they were sent, and its receives
/// that wait for one, in the order in which they were begun.
class Mailbox {
 public:
  /// @brief What a receive got.
  struct Taken {
    std::shared_ptr<Posted> message;  ///< null when there is none yet
    bool next_waits = false;          ///< another receive of the same kind has become the first
  };

  /// @brief Puts a message up.
  void post(std::shared_ptr<Posted> message);
  /// @brief Takes a message back; false when the receiver was faster.
  [[nodiscard]] bool withdraw(const Posted& message);

  /// @brief Begins a receive; returns its number.
  [[nodiscard]] std::uint64_t expect(const Envelope& envelope);
  /// @brief Takes the first message of the receive's kind, when it is the first receive of that kind.
  /// @throws CommMismatch for another size or another kind of memory than the landing's.
  [[nodiscard]] Taken take(std::uint64_t receive, const Landing& landing);
  /// @brief Ends a receive that has taken nothing.
  void forget(std::uint64_t receive);

 private:
  struct Expected {
    std::uint64_t receive;
    Envelope envelope;
  };
  std::mutex mutex_;
  std::vector<std::shared_ptr<Posted>> messages_;
  std::vector<Expected> expected_;
  std::uint64_t receives_ = 0;
};

/// @brief What all ranks of a run share.
class ThreadWorld {
 public:
  /// @brief A world of `size` ranks, none of which has begun.
  explicit ThreadWorld(int size);

  /// @brief Number of ranks.
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  /// @brief A rank's bell.
  [[nodiscard]] Bell& bell(int rank) { return ranks_[static_cast<std::size_t>(rank)]->bell; }
  /// @brief A rank's mailbox.
  [[nodiscard]] Mailbox& mailbox(int rank) {
    return ranks_[static_cast<std::size_t>(rank)]->mailbox;
  }
  /// @brief The board of a group: the same object for all its members.
  [[nodiscard]] std::shared_ptr<DirectBoard> board(std::uint64_t context,
                                                   std::span<const int> members);

  /// @brief The first failure wins: `rank` has thrown `error`.
  void fail(int rank, std::exception_ptr error);
  /// @brief The first failure; null when there is none.
  [[nodiscard]] std::exception_ptr failure() const;
  /// @brief Throws RankFailed when another rank than `rank` has failed.
  void check(int rank, const std::string& doing) const;

  /// @brief `rank` begins, on this thread.
  void started(int rank);
  /// @brief `rank` has returned from its function.
  void finished(int rank);
  /// @brief `rank` waits, having seen `seen` rings. @throws Deadlock when no rank can move.
  void blocked(int rank, std::uint64_t seen, const std::string& doing);
  /// @brief `rank` does not wait any longer.
  void moving(int rank);
  /// @brief What all ranks do, by rank.
  [[nodiscard]] std::vector<RankActivity> activities() const;

 private:
  enum class Doing : std::uint8_t { kMoving, kBlocked, kFinished };
  struct Rank {
    Bell bell;
    Mailbox mailbox;
    Doing doing = Doing::kMoving;
    std::uint64_t seen = 0;
    std::string what;
    int thread = 0;  // its number in the system; 0 before it has begun
  };
  [[nodiscard]] bool nobody_can_move() const;
  [[nodiscard]] std::string all_that_wait() const;

  std::vector<std::unique_ptr<Rank>> ranks_;
  mutable std::mutex mutex_;
  std::atomic<bool> has_failed_{false};
  int failed_rank_ = -1;
  std::exception_ptr failure_;
  std::map<std::uint64_t, std::weak_ptr<DirectBoard>> boards_;
};

/// @brief The world's transport for one rank.
[[nodiscard]] std::unique_ptr<Transport> make_transport(std::shared_ptr<ThreadWorld> world,
                                                        int rank);

/// @brief Calls `body` on `world_size` threads and returns when all have ended.
/// @throws what the first rank to fail threw, its type kept.
void run_ranks(int world_size, const RankBody& body);

}  // namespace ultra::comm::threads
