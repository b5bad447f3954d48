#pragma once
/// @file
/// Transport: messages between the ranks of a group. What every collective is made of.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/comm/collectives/reduce_op.hpp"
#include "common/comm/device/memory_ops.hpp"

namespace ultra {
enum class Checking : std::uint8_t;
struct OperationInfo;
}  // namespace ultra

namespace ultra::comm {

struct CollectiveCall;
class Operation;

/// @brief What keeps messages of different operations apart.
struct Tag {
  /// What a message belongs to.
  enum class Use : std::uint8_t { kCollective, kPointToPoint, kRollCall, kNamed };
  Use use = Use::kCollective;  ///< what it belongs to
  std::uint16_t lane = 0;      ///< lane of a schedule, or channel of a send; below kLanes
  std::uint32_t sequence = 0;  ///< number of the operation, which counts up, or of a name; wraps

  /// Lanes and channels per operation.
  static constexpr std::uint16_t kLanes = 32;
  bool operator==(const Tag&) const = default;
};

/// @brief Whose memory bytes are, and from when on they may be touched.
struct Place {
  std::shared_ptr<const DeviceMemory> device = {};  ///< null: the host's memory
  gpu::Event ready = {};                            ///< on a device: what must have happened before
};

/// @brief Whether the bytes may be touched by now, as far as a device is concerned. Never waits.
[[nodiscard]] inline bool is_there(const Place& place) {
  return !place.device || place.device->device().streams().has_passed(place.ready);
}

/// @brief What is sent.
struct Parcel {
  std::span<const std::byte> memory;       ///< the bytes
  std::shared_ptr<const void> owner = {};  ///< keeps them alive; null when the caller does
  Place place = {};                        ///< where they are
};

/// @brief Where an arriving message goes.
struct Landing {
  std::span<std::byte> memory;             ///< exactly the bytes that must arrive
  std::optional<Combine> combine = {};     ///< set: combine with what is there, instead of storing
  std::shared_ptr<const void> owner = {};  ///< keeps the memory alive; null when the caller does
  Place place = {};                        ///< where it is
};

/// @brief A message under way. Destroying it before it has ended withdraws it: its memory is not
/// touched afterwards, or its owner is kept until it cannot be.
class Request {
 public:
  virtual ~Request() = default;
  /// @brief Moves the message along without waiting; true when it has ended.
  /// @throws CommMismatch when sender and receiver disagree on the size, or on the kind of memory.
  [[nodiscard]] virtual bool test() = 0;
  /// @brief Of bytes on a device, when test() has returned true: the moment of a stream after which
  /// they may be written (of a send) or read (of a receive).
  [[nodiscard]] virtual gpu::Event ended_at() const { return {}; }
};

/// @brief Messages between the ranks of one group. All members are called by one thread at a time.
///
/// Messages with the same peers and tag arrive in the order in which they were sent. A send may
/// wait until its receiver has asked for it: programs must not count on buffers.
/// Bodies: common/comm/backend/threads/thread_transport.cpp,
/// common/comm/backend/mpi/mpi_transport.cpp.
class Transport {
 public:
  virtual ~Transport() = default;

  /// @brief This rank's position in the group.
  [[nodiscard]] virtual int rank() const = 0;
  /// @brief Number of ranks of the group.
  [[nodiscard]] virtual int size() const = 0;
  /// @brief A member's rank in the world.
  [[nodiscard]] virtual int world_rank(int member) const = 0;

  /// @brief Begins to send; the memory must stay untouched until the request has ended.
  [[nodiscard]] virtual std::unique_ptr<Request> isend(const Parcel& parcel, int peer, Tag tag) = 0;
  /// @brief Begins to receive; the landing's memory must stay untouched until the request has ended.
  [[nodiscard]] virtual std::unique_ptr<Request> irecv(const Landing& landing, int peer,
                                                       Tag tag) = 0;

  /// @brief A transport for some members of this group. Collective over those members only.
  /// @param members   their ranks here, in the new group's order; holds this rank.
  /// @param sequence  how many subgroups were made from this transport before; the same everywhere.
  [[nodiscard]] virtual std::unique_ptr<Transport> subgroup(std::span<const int> members,
                                                            std::uint32_t sequence) = 0;

  /// @brief Whether subgroup() waits for its members inside the platform, where nothing else of this
  /// rank moves on: then all members of this group meet before they call it.
  [[nodiscard]] virtual bool subgroup_blocks() const { return false; }

  /// @brief The collective as the platform does it best: over shared memory, or MPI's own.
  ///
  /// Begins nothing before its first advance(). Members compare what they call when `checking` says
  /// so; where that costs nothing (shared memory), always.
  /// @throws ConfigError when this transport has none (a slowed link).
  [[nodiscard]] virtual std::shared_ptr<Operation> native(const CollectiveCall& call,
                                                          Checking checking) = 0;

  /// @brief Throws when messages that go on by themselves on a device have failed.
  virtual void check_device() {}
  /// @brief Ends those messages, where that can be: they will not end well.
  virtual void abort() {}

  /// @brief A collective in a world of which only this rank exists, as an operation that has ended; null
  /// in any other, where messages carry its schedule out.
  /// @param sent_bytes  by this rank, to others.
  [[nodiscard]] virtual std::shared_ptr<Operation> note([[maybe_unused]] const CollectiveCall& call,
                                                        [[maybe_unused]] std::size_t sent_bytes) {
    return nullptr;
  }
  /// @brief The same of a message to or from member `info.root`; null where it travels.
  [[nodiscard]] virtual std::shared_ptr<Operation> note([[maybe_unused]] const OperationInfo& info,
                                                        [[maybe_unused]] const Tensor& data,
                                                        [[maybe_unused]] const Tag& tag) {
    return nullptr;
  }
};

}  // namespace ultra::comm
