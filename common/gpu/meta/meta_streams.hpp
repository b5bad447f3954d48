#pragma once
/// @file
/// MetaStreams: streams that write down what they are given, and do none of it; and the device that has
/// them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/gpu/meta/tape.hpp"
#include "common/gpu/order_checker.hpp"
#include "common/gpu/runtime.hpp"
#include "common/gpu/streams.hpp"

namespace ultra::gpu {

/// Bytes that the host may read of a device that computes nothing, in one copy.
inline constexpr std::size_t kMostReadOfNothing = std::size_t{1} << 20;

/// @brief See Streams; an event is reached as soon as it is recorded, and no operation takes any time.
/// While the tape does not run, nothing is written and events are moments before everything.
///
/// Operations are of elements unless somebody says more of the one under_way(), as copy() does. One thread
/// at a time, as the tape.
class MetaStreams : public Streams {
 public:
  /// @brief Streams of `rank`.
  /// @param tape     outlives them.
  /// @param checker  null, or watches them and outlives them.
  MetaStreams(Tape& tape, OrderChecker* checker, int rank);
  ~MetaStreams() override;

  Event record(StreamRole role) override;
  void wait(StreamRole role, const Event& event) override;
  bool reached(const Event& event) override;
  bool has_passed(const Event&) override { return true; }
  /// @brief As wait(), for the order checker alone: the tape does not know of it.
  void follows(StreamRole role, const Event& event) override;
  void synchronize(const Event& event) override;
  std::uint64_t synchronizations() const override { return synchronizations_; }
  simt::Queue queue(StreamRole) override { return {}; }
  /// @brief Says that the operation under way is a copy; what the host gets are zeros, or nothing where
  /// `to` is null.
  /// @throws Error when the host would get more than kMostReadOfNothing bytes, with the operation and
  /// what was done before it.
  void copy(StreamRole role, void* to, const void* from, std::size_t bytes, CopyKind kind) override;
  void upload(StreamRole role, void* to, const void*, std::size_t bytes) override;
  void clear(StreamRole, void*, std::size_t) override {}
  /// @brief Writes down an operation on elements, which reads and writes the bytes of its regions once.
  void uses(StreamRole role, std::string_view operation, std::span<const Region> reads,
            std::span<const Region> writes) override;
  void done(StreamRole) override {}
  void host_uses(std::string_view operation, std::span<const Region> reads,
                 std::span<const Region> writes) override;
  void mark_phase(std::string_view phase) override;
  void set_listener(std::function<void(const StreamSlice&)>) override {}
  void report_slices() override {}

  /// @brief The operation that the stream was given last, for those who know more of it than its
  /// regions; null while the tape does not run.
  [[nodiscard]] TapedWork* under_way(StreamRole role) {
    return tape_.runs() ? &tape_.works[latest(role).work] : nullptr;
  }

  /// @brief Tells the order checker alone what communication touches, on the communication stream, after
  /// `ready`. @return the event `end`, with what the checker knows then.
  [[nodiscard]] Event exchanges(std::string_view operation, std::span<const Region> reads,
                                std::span<const Region> writes, const Event& ready, EventId end);

  /// @brief Where it is written down.
  [[nodiscard]] Tape& tape() const { return tape_; }

 private:
  struct Latest {
    std::string operation;  // of this stream
    std::string before;     // the one before it
    std::size_t work = 0;   // index on the tape
  };

  [[nodiscard]] Latest& latest(StreamRole role) { return latest_[static_cast<std::size_t>(role)]; }
  [[nodiscard]] OrderChecker::StreamId stream_of(StreamRole role) const {
    return ids_[static_cast<std::size_t>(role)];
  }

  Tape& tape_;
  OrderChecker* checker_;
  std::array<OrderChecker::StreamId, kNumStreamRoles> ids_{};
  std::array<Latest, kNumStreamRoles> latest_;
  std::string phase_;
  std::uint64_t synchronizations_ = 0;
};

/// @brief The sum of the bytes of regions.
[[nodiscard]] std::size_t bytes_of(std::span<const Region> regions);

/// @brief A device without memory, whose streams are MetaStreams: addresses are distinct
/// and the same in every run, kernels do nothing, pinned memory is the host's.
/// @param tape          outlives the runtime.
/// @param checks_order  whether accesses without an order throw OrderError.
[[nodiscard]] std::shared_ptr<Runtime> make_meta_runtime(Tape& tape, bool checks_order);

}  // namespace ultra::gpu
