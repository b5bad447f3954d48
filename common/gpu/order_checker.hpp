#pragma once
/// @file
/// OrderChecker: finds accesses of the same memory from two streams that nothing puts in order.
///
/// On a GPU such a mistake is a wrong number now and then. The emulated device does every operation
/// at once and would never show it; so this checker keeps, as data-race detectors do for threads, a
/// vector clock per stream and the last accesses of every byte.
/// Source: Flanagan & Freund 2009, "FastTrack: efficient and precise dynamic race detection", sec. 3.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/errors.hpp"
#include "common/gpu/region.hpp"
#include "common/gpu/stream_role.hpp"

namespace ultra::gpu {

/// @brief Two accesses without an order; the message names both and the event that is missing.
class OrderError : public Error {
 public:
  using Error::Error;
};

/// @brief How much of each stream's work a moment comes after; index: stream.
using VectorClock = std::vector<std::uint64_t>;

/// @brief Watches the streams of all ranks of this process. All members may be called from several
/// threads.
///
/// A thread of the host that has seen a moment come launches after it; another thread does not, so
/// that a thread which polls for its own purposes cannot hide that another one forgot to wait.
class OrderChecker {
 public:
  /// @brief A stream that is watched.
  using StreamId = std::size_t;

  /// @brief Watches nothing yet.
  OrderChecker();

  /// @brief Watches a new stream.
  [[nodiscard]] StreamId add_stream(int rank, StreamRole role);
  /// @brief The stream is gone; its place may be another's.
  void remove_stream(StreamId stream);

  /// @brief The moment after all that the stream has been given.
  [[nodiscard]] VectorClock record(StreamId stream);
  /// @brief What the stream is given from now on comes after `moment`.
  void wait(StreamId stream, const VectorClock& moment);
  /// @brief The calling thread has seen that `moment` has come: what it launches now comes after it.
  void seen_by_host(const VectorClock& moment);

  /// @brief The stream is given an operation that reads and writes these bytes.
  /// @throws OrderError when an access of another stream, or of the host, has no order to this one.
  void use(StreamId stream, std::string_view operation, std::span<const Region> reads,
           std::span<const Region> writes);
  /// @brief The host itself reads and writes these bytes, now.
  /// @throws OrderError when it has not seen the end of a stream's access.
  void use_by_host(std::string_view operation, std::span<const Region> reads,
                   std::span<const Region> writes);

  /// @brief The system has the memory back: its history ends.
  void forget(const void* begin, std::size_t bytes);

 private:
  struct Access {
    StreamId stream = 0;
    std::uint64_t count = 0;  // the stream's operation; 0: no access
    const std::string* operation = nullptr;
  };
  struct Segment {
    std::uintptr_t end = 0;
    Access write;
    std::vector<Access> reads;  // those that nothing puts in order with each other
  };
  struct Stream {
    int rank = 0;
    StreamRole role = StreamRole::kCompute;
    bool in_use = false;
    VectorClock clock;
  };
  using Segments = std::map<std::uintptr_t, Segment>;

  void note(StreamId stream, std::string_view operation, std::span<const Region> reads,
            std::span<const Region> writes);
  void read(const Access& access, std::uintptr_t begin, std::uintptr_t end);
  void write(const Access& access, std::uintptr_t begin, std::uintptr_t end);
  Segments::iterator split(std::uintptr_t address);
  void check(const Access& earlier, const char* earlier_does, const Access& now,
             const char* now_does, std::size_t bytes) const;
  [[nodiscard]] bool is_before(const Access& earlier, StreamId stream) const;
  [[nodiscard]] std::string name_of(StreamId stream) const;

  std::mutex mutex_;
  std::vector<Stream> streams_;  // [0] is the host, with the clock of the thread that is calling
  std::map<std::thread::id, VectorClock> threads_;  // what each has seen
  std::set<std::string, std::less<>> operations_;
  Segments segments_;
};

}  // namespace ultra::gpu
