#pragma once
/// @file
/// Streams of a GPU. Free of CUDA's headers' names but for its handles; only cuda/ includes it.

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "common/gpu/cuda/event_pool.cuh"
#include "common/gpu/streams.hpp"

namespace ultra::gpu {

/// @brief See Streams. Communication has a higher priority than compute, so that small kernels of a
/// collective are not kept waiting by a wide product.
class CudaStreams : public Streams {
 public:
  /// @brief Streams of one device.
  /// @throws Error when CUDA refuses them.
  CudaStreams(int device, int rank);
  ~CudaStreams() override;

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
  struct Staging {
    void* block = nullptr;
    std::size_t bytes = 0;
    Event used_until;
  };
  struct Slice {
    StreamRole role;
    std::string operation;
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
  };

  void make_current() const;
  /// Made when it is first asked for: a GPU has few queues, and streams that share one wait for each
  /// other.
  [[nodiscard]] cudaStream_t stream_of(StreamRole role);
  [[nodiscard]] Staging take_staging(std::size_t bytes);
  void upload_piece(StreamRole role, std::byte* to, const std::byte* from, std::size_t bytes);
  void drop_slices() noexcept;
  [[nodiscard]] cudaEvent_t timing_event(StreamRole role);

  int device_;
  int rank_;
  std::mutex making_mutex_;
  std::array<std::atomic<cudaStream_t>, kNumStreamRoles> streams_{};
  std::shared_ptr<EventPool> events_;
  std::atomic<std::uint64_t> synchronizations_ = 0;

  std::mutex staging_mutex_;
  std::deque<Staging> staging_;  // oldest use first
  std::size_t staging_bytes_ = 0;

  std::atomic<bool> listens_ = false;
  std::mutex slices_mutex_;  // guards what follows
  std::function<void(const StreamSlice&)> listener_;
  std::array<Slice, kNumStreamRoles> running_;
  std::deque<Slice> slices_;
  cudaEvent_t zero_ = nullptr;
  double zero_seconds_ = 0;
};

}  // namespace ultra::gpu
