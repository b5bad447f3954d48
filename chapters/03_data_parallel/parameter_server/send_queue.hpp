#pragma once
/// @file
/// SendQueue: sends that wait for their turn, the most urgent first.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/comm/communicator.hpp"

namespace ultra::data_parallel {

/// @brief Sends that wait for their turn: of those that have not begun, the most urgent begins first,
/// and at most `window` of them are on their way at a time.
///
/// So an urgent send overtakes those that were issued before it and still wait; of those that matter
/// less, it waits for `window` at most. The next begins as soon as one has been taken by its
/// receiver: receivers that come late hold up the sends to all others, too. A queue belongs to one
/// rank, which may use it for sends to several peers and in several groups.
/// Source: Jayarajan et al. 2019 (P3, arXiv 1905.03960), which sends one slice at a time; Peng et al.
/// 2019 (ByteScheduler), whose credit is this window, counted in bytes.
class SendQueue {
 public:
  /// Fills a link: the bytes of one are on the wire while the other is being delivered.
  static constexpr int kDefaultWindow = 2;

  /// @brief A send, as its queue sees it.
  class Send {
   public:
    virtual ~Send() = default;
    /// @brief Its turn has come. Keeps what it throws until it is asked for.
    virtual void begin() noexcept = 0;
    /// @brief "send #3 of 'dp' (5 f32 to rank 2): rank 2 has not taken the message".
    [[nodiscard]] virtual std::string text() const = 0;
  };

  /// @throws ConfigError when the window is below 1.
  explicit SendQueue(int window = kDefaultWindow);
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  /// @brief How many sends may be on their way at a time.
  [[nodiscard]] int window() const { return window_; }

  /// @brief A send joins those that wait. Called by the rank's own thread.
  /// @throws ConfigError when another rank uses the queue.
  void enter(Send& send, int priority);
  /// @brief Begins the sends whose turn it is, the most urgent first. As everything that moves
  /// operations along, called by one thread at a time: inside the engine's pass.
  void begin_due();
  /// @brief A send has ended or is withdrawn: its place is free. Does nothing when it has left.
  void leave(const Send& send);
  /// @brief Why a send has not begun: "it waits behind 3 more urgent ones and for ...".
  [[nodiscard]] std::string waits_for(const Send& send) const;

 private:
  // The smallest first: by priority, then in the order of issue.
  using Turn = std::pair<int, std::uint64_t>;

  const int window_;
  // Guards what follows. Held while sends begin, so that none of them disappears meanwhile.
  mutable std::mutex mutex_;
  std::thread::id owner_;
  std::uint64_t entered_ = 0;
  std::map<Turn, Send*> waiting_;
  std::vector<const Send*> on_their_way_;
};

/// @brief When a send begins.
struct Turn {
  std::shared_ptr<SendQueue> queue;  ///< null: at once
  int priority = 0;  ///< the lower, the more urgent; equal ones begin in the order of issue
};

/// @brief What begins a send when its turn has come; the send itself without a queue.
/// @throws ConfigError when it is called for a send of a rank other than the queue's.
[[nodiscard]] std::shared_ptr<comm::Operation> in_turn(std::shared_ptr<comm::Operation> send,
                                                       const Turn& turn);

/// @brief Sends to a member of a group when the turn has come, to the recv of the same name there.
/// @throws ConfigError when it is called for a send of a rank other than the queue's.
[[nodiscard]] Work send_in_turn(const Communicator& group, const Tensor& data, int peer,
                                const MessageName& name, const Turn& turn);

}  // namespace ultra::data_parallel
