#pragma once
/// @file
/// Operation: a collective or a message under way, as the progress engine sees it.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/comm/collectives/reduce_op.hpp"
#include "common/comm/collectives/schedule.hpp"
#include "common/comm/device/memory_ops.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra {

/// @brief What ranks can do together.
enum class OpKind : std::uint8_t {
  kBroadcast,
  kReduce,
  kAllReduce,
  kGather,
  kScatter,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBarrier,
  kSend,
  kRecv,
};

/// Number of kinds.
inline constexpr std::size_t kOpKinds = 11;

/// @brief The kinds that move a user's data, in the order in which figures list them.
inline constexpr OpKind kDataOpKinds[] = {
    OpKind::kBroadcast,     OpKind::kReduce,   OpKind::kAllReduce,
    OpKind::kGather,        OpKind::kScatter,  OpKind::kAllGather,
    OpKind::kReduceScatter, OpKind::kAllToAll, OpKind::kSend};

/// @brief "all_reduce", "send", ...
[[nodiscard]] std::string_view to_string(OpKind kind);

/// @brief Whether members compare what they call before each collective.
enum class Checking : std::uint8_t { kOn, kOff };

/// @brief What an operation is, for messages, metrics and timelines.
struct OperationInfo {
  OpKind kind = OpKind::kBarrier;     ///< what it does
  std::string communicator{};         ///< the name of the group, for example "dp"
  std::uint64_t communicator_id = 0;  ///< tells groups of the same name apart, on this rank
  std::uint32_t sequence = 0;         ///< its number among the group's operations, 0 for the first
  std::size_t count = 0;              ///< elements of the whole operation
  DType dtype = DType::kF32;          ///< of the elements
  DeviceKind device = DeviceKind::kCpu;  ///< where they are
  ReduceOp op = ReduceOp::kSum;          ///< for reductions
  int root = 0;         ///< for broadcast, reduce, gather, scatter; a message's peer
  std::string label{};  ///< by Communicator::labeled
};

/// @brief "all_reduce (sum of 4096 f32)"; with a label "... [bucket 2]" at its end.
[[nodiscard]] std::string call_text(const OperationInfo& info);

/// @brief "all_reduce of 'dp'"; with a label "... [bucket 2]" at its end: its name on a device's streams.
[[nodiscard]] std::string stream_name(const OperationInfo& info);

/// @brief "all_reduce #3 of 'dp' (sum of 4096 f32)"; with a label "... [bucket 2]" at its end.
[[nodiscard]] std::string to_string(const OperationInfo& info);

}  // namespace ultra

namespace ultra::comm {

/// @brief Arguments of a collective, checked, with every buffer known.
struct CollectiveCall {
  OperationInfo info;  ///< what to do
  Tensor input;        ///< contiguous; may be the output (in place)
  Tensor output;       ///< contiguous; undefined where a rank receives nothing
  Chunks sent;         ///< how the input is cut, where it is cut
  Chunks received;     ///< how the output is cut, where it is cut
};

/// @brief Ends an average whose sum stands in the output: divides it by the group's size.
///
/// Does nothing for any other call, and where this rank receives nothing.
/// @param memory  the output's.
void divide_average(const CollectiveCall& call, int size, const MemoryOps& memory);

/// @brief When an operation on a device's tensors may begin, and when it ends, as moments of streams.
///
/// The host only brings the ranks together and fills streams: nobody waits for the device. An operation
/// begins after what the stream of its caller had been given when it was issued; what its caller
/// launches after Work::wait begins after its end.
class DevicePart {
 public:
  /// @brief Of an operation on the host's memory: there is none.
  DevicePart() = default;
  /// @brief Of an operation on these tensors, of which undefined ones are passed over: begins after
  /// what the calling thread's stream was given so far.
  /// @param operation  its name in messages and in the trace.
  DevicePart(const std::vector<Tensor>& tensors, const std::string& operation);
  /// @brief A part that has not ended yet, like the other one.
  DevicePart(const DevicePart& other) : device_(other.device_), ready_(other.ready_) {}
  DevicePart& operator=(const DevicePart&) = delete;
  /// If nobody has joined it: what the rank communicates from now on comes after it, and with it the
  /// next use of its tensors' memory.
  ~DevicePart();

  /// @brief Whether there is one.
  [[nodiscard]] bool exists() const { return device_ != nullptr; }
  /// @brief The memory: the device's, or the host's.
  [[nodiscard]] const MemoryOps& memory() const { return exists() ? *device_ : host_memory(); }
  /// @brief The device's memory; null on the host.
  [[nodiscard]] const std::shared_ptr<const DeviceMemory>& device() const { return device_; }
  /// @brief When the tensors may be read and written.
  [[nodiscard]] const gpu::Event& ready() const { return ready_; }

  /// @brief One more moment after which the operation has ended.
  void ends_at(const gpu::Event& event) { ends_.push_back(event); }
  /// @brief The operation ends when the other one has ended, too.
  void ends_with(const DevicePart& other);
  /// @brief When it ends: after all of these.
  [[nodiscard]] const std::vector<gpu::Event>& ends() const { return ends_; }

  /// @brief Whether the device has come to its beginning.
  [[nodiscard]] bool has_begun() const;
  /// @brief Whether the device has done it.
  [[nodiscard]] bool has_ended() const;
  /// @brief What the calling thread launches from now on begins after the operation's end.
  void join() const;

 private:
  std::shared_ptr<const DeviceMemory> device_;
  gpu::Event ready_;
  std::vector<gpu::Event> ends_;
  mutable std::atomic<bool> joined_ = false;
};

/// @brief What of a collective happens on a device; to be asked where it is issued.
[[nodiscard]] DevicePart device_part_of(const CollectiveCall& call);

/// @brief Work that the progress engine moves along.
class Operation {
 public:
  /// @brief When an operation may begin.
  enum class Order : std::uint8_t {
    kInTurn,   ///< after the operations issued before it on the same communicator
    kAnyTime,  ///< at once: messages are matched by their own order
  };

  /// @brief An operation that has not begun.
  Operation(OperationInfo info, Order order) : info_(std::move(info)), order_(order) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// @brief Does what can be done without waiting; true when the operation has ended, or when what is
  /// left of it goes on by itself on a device: see device_part().
  [[nodiscard]] virtual bool advance() = 0;
  /// @brief Why it does not end: "rank 2 has not sent". Asked only once it has begun.
  [[nodiscard]] virtual std::string waits_for() const = 0;
  /// @brief Bytes that this rank has sent to others, or will have when it ends.
  [[nodiscard]] virtual std::size_t sent_bytes() const = 0;

  /// @brief What of it happens on a device; null when nothing does.
  [[nodiscard]] virtual const DevicePart* device_part() const { return nullptr; }
  /// @brief Throws when what goes on by itself on a device has failed. Asked now and then.
  virtual void check_device() {}
  /// @brief Ends what goes on by itself on a device, where that can be: it will not end well.
  virtual void abort() {}

  /// @brief What it is.
  [[nodiscard]] const OperationInfo& info() const { return info_; }
  /// @brief When it may begin.
  [[nodiscard]] Order order() const { return order_; }
  /// @brief When it began, where that is later than its first advance(): it waited for its turn.
  [[nodiscard]] virtual std::optional<std::chrono::steady_clock::time_point> begin_time() const {
    return std::nullopt;
  }

 private:
  friend class ProgressEngine;

  OperationInfo info_;
  Order order_;
  // The engine's: its place in the order in which the rank's operations end; 0 before it has.
  std::uint64_t ended_as_ = 0;
  std::exception_ptr error_;  // what it threw: every wait for it throws it
  // Since when the questions of the rank's own thread are a wait (see poll()), and when the last was.
  std::chrono::steady_clock::time_point polled_since_;
  std::chrono::steady_clock::time_point last_poll_;
};

}  // namespace ultra::comm
