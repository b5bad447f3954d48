#pragma once
/// @file
/// Tape: what one rank's step computes, sends, waits for and keeps in memory, in the order in which its
/// host says so. Written by a device and a world that compute nothing; read by common/replay, which
/// prices it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/gpu/stream_role.hpp"

namespace ultra::gpu {

/// @brief What kind of work an operation is: how its price is found.
enum class WorkKind : std::uint8_t { kProduct, kAttention, kElementwise, kCopy, kHostCopy };

/// @brief What an operation does, whoever computes it.
struct TapedWork {
  WorkKind kind = WorkKind::kElementwise;  ///< how it is priced
  std::uint32_t name = 0;                  ///< index into Tape::names
  std::uint32_t phase = 0;                 ///< of the step, index into Tape::names
  std::size_t count = 1;  ///< equal products in one launch, or heads of all sequences in attention
  std::size_t m = 0;      ///< of a product, always as its forward pass: tokens
  std::size_t k = 0;      ///< features that come in; the head dimension of attention
  std::size_t n = 0;      ///< features that go out
  std::size_t element_bytes = 0;  ///< of a product's or attention's factors
  double flop = 0;                ///< multiplications and additions, each counted
  double flop_again = 0;          ///< that a kernel computes once more, which the flop do not count
  std::size_t read_bytes = 0;     ///< of the device's memory
  std::size_t written_bytes = 0;  ///< of the device's memory
};

/// Number of an event on a tape; 0 is a moment before everything.
using EventId = std::uint32_t;

/// @brief A collective's kind, as its price is asked for.
enum class ExchangeKind : std::uint8_t {
  kBroadcast,
  kReduce,
  kAllReduce,
  kGather,
  kScatter,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBarrier,
};

/// Number of kinds of exchanges.
inline constexpr std::size_t kExchangeKinds = 9;

/// @brief "all-reduce", for example.
[[nodiscard]] std::string_view to_string(ExchangeKind kind);

/// @brief A collective that this rank takes part in.
struct TapedExchange {
  ExchangeKind kind = ExchangeKind::kBarrier;  ///< what it does
  std::uint32_t group = 0;                     ///< index into Tape::groups
  std::uint32_t sequence = 0;                  ///< its number among the group's collectives
  std::uint32_t label = 0;                     ///< Communicator::labeled's, index into Tape::names
  std::size_t bytes = 0;                       ///< of the whole operation: its elements' size
  std::size_t sent_bytes = 0;                  ///< by this rank
  EventId ready = 0;                           ///< may begin after it
  EventId end = 0;                             ///< comes when it has ended
  bool of_host = false;  ///< of the host's memory: the host waits for it where it stands
};

/// @brief A message that this rank sends or receives.
struct TapedMessage {
  int peer = 0;             ///< rank of the world
  std::uint32_t group = 0;  ///< index into Tape::groups: its members number their messages
  std::uint64_t name = 0;   ///< tells it from others between the two ranks of the group
  std::size_t bytes = 0;    ///< its size
  EventId ready = 0;        ///< may begin after it
  EventId end = 0;          ///< of a receive: comes when it has arrived
  bool sends = false;       ///< or receives
  bool of_host = false;     ///< of the host's memory
};

/// @brief What an entry of a tape is.
enum class EntryKind : std::uint8_t {
  kWork,      ///< a stream is given Tape::works[index]
  kExchange,  ///< Tape::exchanges[index] is issued
  kMessage,   ///< Tape::messages[index] is issued
  kRecord,    ///< event `index` is recorded on a stream
  kWait,      ///< a stream waits for event `index`
  kHostWait,  ///< the host waits for event `index`
  kMemory,    ///< from now on Tape::memory[index] is in use
};

/// @brief One thing that the host did.
struct Entry {
  EntryKind kind;           ///< what
  StreamRole role;          ///< on which stream, where it is one
  std::uint32_t index = 0;  ///< see EntryKind
};

/// @brief A group of ranks of the world.
struct TapedGroup {
  std::string name;          ///< "dp", "world", ...
  std::vector<int> members;  ///< ranks of the world, in the group's order
  bool operator==(const TapedGroup&) const = default;
};

/// Bytes in use by category: indexed as MemoryCategory.
using TapedMemory = std::array<std::size_t, 6>;

/// @brief All of that, of one rank. Nothing but the program's own order decides what is on it: two
/// records of one command line are equal.
///
/// Not thread safe: one rank writes it, on one thread.
class Tape {
 public:
  Tape() { static_cast<void>(name("")); }

  std::vector<Entry> entries;            ///< in the host's order
  std::vector<TapedWork> works;          ///< of entries
  std::vector<TapedExchange> exchanges;  ///< of entries
  std::vector<TapedMessage> messages;    ///< of entries
  std::vector<TapedGroup> groups;        ///< that exchanges and messages name
  std::vector<TapedMemory> memory;       ///< after each change
  std::vector<std::string> names;        ///< of works, phases and labels; the first is ""

  /// @brief From now on what happens is written down, or not; not at first.
  void run(bool runs) { runs_ = runs; }
  /// @brief Whether what happens is written down.
  [[nodiscard]] bool runs() const { return runs_; }

  /// @brief The index of a name.
  [[nodiscard]] std::uint32_t name(std::string_view text);
  /// @brief The index of a group.
  [[nodiscard]] std::uint32_t group(const TapedGroup& group);
  /// @brief A new event; 0 while the tape does not run: what was before it is before everything.
  [[nodiscard]] EventId new_event() { return runs_ ? ++events_ : 0; }
  /// @brief How many events there are, 0 included.
  [[nodiscard]] std::size_t events() const { return std::size_t{events_} + 1; }

  /// @brief Works from now on are of this phase.
  void set_phase(std::string_view phase) { phase_ = name(phase); }

  /// @brief A stream is given work; its phase is the present one.
  /// @return its index in works; meaningless while the tape does not run.
  std::size_t add(StreamRole role, TapedWork work);
  /// @brief A collective is issued.
  void add(const TapedExchange& exchange);
  /// @brief A message is issued.
  void add(const TapedMessage& message);
  /// @brief An event is recorded on a stream, or waited for by a stream or (kHostWait) by the host;
  /// waits for event 0 are passed over.
  void add(EntryKind kind, StreamRole role, EventId event);
  /// @brief The memory in use has changed.
  void add(const TapedMemory& in_use);

 private:
  void enter(EntryKind kind, StreamRole role, std::size_t index);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> indices_;
  std::uint32_t phase_ = 0;
  EventId events_ = 0;
  bool runs_ = false;
};

}  // namespace ultra::gpu
