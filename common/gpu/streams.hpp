#pragma once
/// @file
/// Streams: one rank's queues of work on a device, and the events that put them in order.
///
/// The host puts work into a stream and goes on; a stream does its work in order, and two streams run
/// beside each other unless one waits for an event of the other. Where the host itself waits, that is
/// counted, because within a training step it must not.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "common/gpu/region.hpp"
#include "common/gpu/stream_role.hpp"
#include "kernels/simt/config.hpp"

namespace ultra::gpu {

/// @brief What an event stands for on one kind of device.
struct EventState {
  EventState() = default;
  virtual ~EventState() = default;
  EventState(const EventState&) = delete;
  EventState& operator=(const EventState&) = delete;
};

/// @brief A moment of a stream: what had been put into it when the event was recorded.
///
/// Copies stand for the same moment. A default-constructed event is a moment before everything.
class Event {
 public:
  /// @brief A moment before everything: nobody waits for it.
  Event() = default;
  /// @brief For implementations of Streams.
  explicit Event(std::shared_ptr<const EventState> state) : state_(std::move(state)) {}
  /// @brief For implementations of Streams; null for a moment before everything.
  [[nodiscard]] const EventState* state() const { return state_.get(); }

 private:
  std::shared_ptr<const EventState> state_;
};

/// @brief From where to where a copy goes.
enum class CopyKind { kHostToDevice, kDeviceToHost, kDeviceToDevice };

/// @brief An operation of a stream that has ended, for the trace.
struct StreamSlice {
  StreamRole role;             ///< its stream
  std::string_view operation;  ///< its name, as uses() was told it; alive during the call only
  double begin_seconds;        ///< on std::chrono::steady_clock
  double end_seconds;          ///< on std::chrono::steady_clock
};

/// Multiprocessors that computing leaves to communication that runs beside it, of kernels whose blocks stay
/// until all is done: as many as Transformer Engine gives to communication that overlaps a product (num_sm).
inline constexpr unsigned kMultiprocessorsOfCommunication = 16;

/// @brief The streams of one rank's device. All members may be called from several threads.
class Streams {
 public:
  Streams() = default;
  virtual ~Streams() = default;
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  /// @brief The moment after all that has been put into the stream so far.
  [[nodiscard]] virtual Event record(StreamRole role) = 0;

  /// @brief What is put into the stream from now on begins after the event; the host goes on. The
  /// event may be of another rank's streams.
  virtual void wait(StreamRole role, const Event& event) = 0;

  /// @brief Asks, without waiting, whether the event has come; after true, the host may rely on it.
  /// @throws Error when work of the device has failed.
  [[nodiscard]] virtual bool reached(const Event& event) = 0;

  /// @brief Like reached(), for bookkeeping that must not count as an order: the order checker still
  /// wants to see a wait() before anybody relies on it.
  [[nodiscard]] virtual bool has_passed(const Event& event) = 0;

  /// @brief As wait(), for an event that has_passed() has found, or that bookkeeping of memory alone
  /// asks for: it costs the stream nothing, and nobody who asks what a step waits for wants to know.
  virtual void follows(StreamRole role, const Event& event) { wait(role, event); }

  /// @brief The host waits for the event: counted in synchronizations().
  /// @throws Error when work of the device has failed.
  virtual void synchronize(const Event& event) = 0;

  /// @brief The host waits for all that has been put into the stream: counted.
  void synchronize(StreamRole role) { synchronize(record(role)); }

  /// @brief How often the host has waited for the device.
  [[nodiscard]] virtual std::uint64_t synchronizations() const = 0;

  /// @brief Where kernels are launched; makes the device the calling thread's current one.
  [[nodiscard]] virtual simt::Queue queue(StreamRole role) = 0;

  /// @brief What queue() tells kernels whose blocks stay until all is done: multiprocessors that they leave
  /// to others; 0 at first.
  void leave_multiprocessors(unsigned count) { left_multiprocessors_ = count; }

  /// @brief Puts a copy of `bytes` bytes into the stream and returns.
  /// @pre The host's side is pinned memory (Runtime::allocate_pinned, Device::host()) and is left
  /// alone until an event after the copy has been reached. Called between uses() and done(), or in
  /// a Launch, as kernels are.
  virtual void copy(StreamRole role, void* to, const void* from, std::size_t bytes,
                    CopyKind kind) = 0;

  /// @brief Puts a copy of the host's bytes into the stream; `from` may be any memory and is free
  /// again at the return. Stages through pinned memory; the host does not wait for the device. Tells
  /// the order checker itself.
  virtual void upload(StreamRole role, void* to, const void* from, std::size_t bytes) = 0;

  /// @brief Puts zero bytes into the stream. Called as copy() is.
  virtual void clear(StreamRole role, void* to, std::size_t bytes) = 0;

  /// @brief Tells the order checker and the trace what the next operation of the stream touches.
  /// @param operation  its name, for messages and traces.
  /// @throws OrderError on the emulated device, when another stream's access of the same bytes has
  /// no order to this one; nothing is launched then.
  virtual void uses(StreamRole role, std::string_view operation, std::span<const Region> reads,
                    std::span<const Region> writes) = 0;

  /// @brief The operation that uses() announced has been put into the stream.
  virtual void done(StreamRole role) = 0;

  /// @brief Tells the order checker that the host itself reads or writes device memory: what only
  /// the emulated device's memory allows.
  virtual void host_uses(std::string_view operation, std::span<const Region> reads,
                         std::span<const Region> writes) = 0;

  /// @brief Names what the calling thread does from now on, for a profiler of the system.
  virtual void mark_phase(std::string_view phase) = 0;

  /// @brief Calls `listener` for operations that end from now on; an empty function stops that.
  virtual void set_listener(std::function<void(const StreamSlice&)> listener) = 0;

  /// @brief Hands operations that have ended to the listener; call it when the step has ended.
  virtual void report_slices() = 0;

 protected:
  /// @brief What leave_multiprocessors() was told.
  [[nodiscard]] unsigned left_multiprocessors() const { return left_multiprocessors_; }

 private:
  std::atomic<unsigned> left_multiprocessors_ = 0;
};

/// @brief One operation of a stream: announces what it touches, gives the queue for its kernels, and
/// ends it.
class Launch {
 public:
  /// @brief Announces an operation; see Streams::uses.
  /// @throws OrderError as Streams::uses.
  Launch(Streams& streams, StreamRole role, std::string_view operation,
         std::span<const Region> reads, std::span<const Region> writes)
      : streams_(streams), role_(role) {
    streams_.uses(role, operation, reads, writes);
  }
  /// @brief Announces an operation; see Streams::uses.
  Launch(Streams& streams, StreamRole role, std::string_view operation,
         std::initializer_list<Region> reads, std::initializer_list<Region> writes)
      : Launch(streams, role, operation, std::span(reads.begin(), reads.size()),
               std::span(writes.begin(), writes.size())) {}
  /// @brief Ends the operation.
  ~Launch() { streams_.done(role_); }
  /// @brief An operation is launched once.
  Launch(const Launch&) = delete;
  /// @brief An operation is launched once.
  Launch& operator=(const Launch&) = delete;

  /// @brief Where its kernels are launched.
  [[nodiscard]] simt::Queue queue() const { return streams_.queue(role_); }

 private:
  Streams& streams_;
  StreamRole role_;
};

}  // namespace ultra::gpu
