#pragma once
/// @file
/// Streams of the emulated device: they do their work at once, and the order checker watches them.

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "common/gpu/order_checker.hpp"
#include "common/gpu/streams.hpp"

namespace ultra::gpu {

/// @brief See Streams; an event is reached as soon as it is recorded.
class EmulatedStreams : public Streams {
 public:
  /// @brief Streams of `rank` that `checker`, which outlives them, watches.
  EmulatedStreams(OrderChecker& checker, int rank);
  ~EmulatedStreams() override;

  Event record(StreamRole role) override;
  void wait(StreamRole role, const Event& event) override;
  bool reached(const Event& event) override;
  bool has_passed(const Event& event) override;
  void synchronize(const Event& event) override;
  std::uint64_t synchronizations() const override;
  simt::Queue queue(StreamRole role) override;
  void copy(StreamRole role, void* to, const void* from, std::size_t bytes, CopyKind kind) override;
  void upload(StreamRole role, void* to, const void* from, std::size_t bytes) override;
  void clear(StreamRole role, void* to, std::size_t bytes) override;
  void uses(StreamRole role, std::string_view operation, std::span<const Region> reads,
            std::span<const Region> writes) override;
  void done(StreamRole role) override;
  void host_uses(std::string_view operation, std::span<const Region> reads,
                 std::span<const Region> writes) override;
  void mark_phase(std::string_view phase) override;
  void set_listener(std::function<void(const StreamSlice&)> listener) override;
  void report_slices() override;

 private:
  struct Running {
    std::string operation;
    std::chrono::steady_clock::time_point begin;
  };

  [[nodiscard]] OrderChecker::StreamId id_of(StreamRole role) const {
    return ids_[static_cast<std::size_t>(role)];
  }

  OrderChecker& checker_;
  std::array<OrderChecker::StreamId, kNumStreamRoles> ids_{};
  std::atomic<std::uint64_t> synchronizations_ = 0;
  std::atomic<bool> listens_ = false;
  std::mutex mutex_;  // guards what follows
  std::function<void(const StreamSlice&)> listener_;
  std::array<Running, kNumStreamRoles> running_;
};

}  // namespace ultra::gpu
