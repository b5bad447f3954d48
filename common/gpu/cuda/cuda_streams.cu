#include "common/gpu/cuda/cuda_streams.cuh"

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ultra::gpu {
namespace {

// Uploads are cut into pieces, and so much pinned memory waits for its copies at most.
constexpr std::size_t kPiece = std::size_t{8} << 20;
constexpr std::size_t kMostStaging = std::size_t{64} << 20;
constexpr std::size_t kSmallestStaging = std::size_t{64} << 10;

cudaEvent_t handle_of(const Event& event) {
  if (event.state() == nullptr) return nullptr;
  return static_cast<const CudaEvent*>(event.state())->event;
}

int priority_of(StreamRole role) {
  int lowest = 0;
  int highest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriority");
  return role == StreamRole::kCommunication ? highest : lowest;
}

cudaMemcpyKind direction(CopyKind kind) {
  switch (kind) {
    case CopyKind::kHostToDevice:
      return cudaMemcpyHostToDevice;
    case CopyKind::kDeviceToHost:
      return cudaMemcpyDeviceToHost;
    case CopyKind::kDeviceToDevice:
      break;
  }
  return cudaMemcpyDeviceToDevice;
}

double now_in_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

CudaStreams::CudaStreams(int device, int rank)
    : device_(device), rank_(rank), events_(std::make_shared<EventPool>(device)) {
  make_current();
}

CudaStreams::~CudaStreams() {
  static_cast<void>(cudaSetDevice(device_));
  for (const cudaStream_t stream : streams_) {
    if (stream == nullptr) continue;
    static_cast<void>(cudaStreamSynchronize(stream));
    static_cast<void>(cudaStreamDestroy(stream));
  }
  drop_slices();
  for (Staging& staging : staging_) static_cast<void>(cudaFreeHost(staging.block));
}

void CudaStreams::make_current() const { check_cuda(cudaSetDevice(device_), "cudaSetDevice"); }

cudaStream_t CudaStreams::stream_of(StreamRole role) {
  std::atomic<cudaStream_t>& stream = streams_[static_cast<std::size_t>(role)];
  if (const cudaStream_t made = stream.load(std::memory_order_acquire)) return made;
  const std::lock_guard lock(making_mutex_);
  if (const cudaStream_t made = stream.load(std::memory_order_acquire)) return made;
  make_current();
  cudaStream_t made = nullptr;
  check_cuda(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, priority_of(role)),
             "cudaStreamCreate");
  const std::string name = "rank " + std::to_string(rank_) + " " + std::string(to_string(role));
  nvtxNameCudaStreamA(made, name.c_str());
  stream.store(made, std::memory_order_release);
  return made;
}

Event CudaStreams::record(StreamRole role) {
  make_current();
  auto state = std::make_shared<CudaEvent>(events_);
  check_cuda(cudaEventRecord(state->event, stream_of(role)), "cudaEventRecord");
  return Event(std::move(state));
}

void CudaStreams::wait(StreamRole role, const Event& event) {
  const cudaEvent_t handle = handle_of(event);
  if (handle == nullptr) return;
  make_current();
  check_cuda(cudaStreamWaitEvent(stream_of(role), handle, 0), "cudaStreamWaitEvent");
}

bool CudaStreams::reached(const Event& event) { return has_passed(event); }

bool CudaStreams::has_passed(const Event& event) {
  const cudaEvent_t handle = handle_of(event);
  if (handle == nullptr) return true;
  make_current();  // else a thread that has asked for nothing yet opens a context on GPU 0
  const cudaError_t status = cudaEventQuery(handle);
  if (status == cudaErrorNotReady) return false;
  check_cuda(status, "cudaEventQuery");
  return true;
}

void CudaStreams::synchronize(const Event& event) {
  ++synchronizations_;
  if (const cudaEvent_t handle = handle_of(event)) {
    make_current();
    check_cuda(cudaEventSynchronize(handle), "cudaEventSynchronize");
  }
}

std::uint64_t CudaStreams::synchronizations() const { return synchronizations_; }

simt::Queue CudaStreams::queue(StreamRole role) {
  make_current();
  return {.stream = {.handle = stream_of(role)},
          .report = nullptr,
          .spare_multiprocessors = left_multiprocessors()};
}

void CudaStreams::copy(StreamRole role, void* to, const void* from, std::size_t bytes,
                       CopyKind kind) {
  if (bytes == 0) return;
  make_current();
  check_cuda(cudaMemcpyAsync(to, from, bytes, direction(kind), stream_of(role)), "cudaMemcpyAsync");
}

void CudaStreams::upload(StreamRole role, void* to, const void* from, std::size_t bytes) {
  const Launch launch(*this, role, "upload", {}, {Region{to, bytes}});
  make_current();
  for (std::size_t done = 0; done < bytes; done += kPiece) {
    upload_piece(role, static_cast<std::byte*>(to) + done,
                 static_cast<const std::byte*>(from) + done, std::min(kPiece, bytes - done));
  }
}

void CudaStreams::upload_piece(StreamRole role, std::byte* to, const std::byte* from,
                               std::size_t bytes) {
  Staging staging = take_staging(bytes);
  std::memcpy(staging.block, from, bytes);
  check_cuda(cudaMemcpyAsync(to, staging.block, bytes, cudaMemcpyHostToDevice, stream_of(role)),
             "cudaMemcpyAsync");
  staging.used_until = record(role);
  const std::lock_guard lock(staging_mutex_);
  staging_.push_back(std::move(staging));
}

/// A pinned block that no copy reads any more.
CudaStreams::Staging CudaStreams::take_staging(std::size_t bytes) {
  std::unique_lock lock(staging_mutex_);
  const auto fits = [&](const Staging& staging) {
    return staging.bytes >= bytes && has_passed(staging.used_until);
  };
  auto found = std::ranges::find_if(staging_, fits);
  if (found == staging_.end() && staging_bytes_ >= kMostStaging) {
    found = std::ranges::find_if(staging_, [&](const Staging& s) { return s.bytes >= bytes; });
    if (found != staging_.end()) synchronize(found->used_until);
  }
  if (found != staging_.end()) {
    Staging staging = std::move(*found);
    staging_.erase(found);
    return staging;
  }
  Staging staging;
  staging.bytes = std::max(bytes, kSmallestStaging);
  check_cuda(cudaHostAlloc(&staging.block, staging.bytes, cudaHostAllocDefault), "cudaHostAlloc");
  staging_bytes_ += staging.bytes;
  return staging;
}

void CudaStreams::clear(StreamRole role, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  make_current();
  check_cuda(cudaMemsetAsync(to, 0, bytes, stream_of(role)), "cudaMemsetAsync");
}

void CudaStreams::uses(StreamRole role, std::string_view operation, std::span<const Region>,
                       std::span<const Region>) {
  if (!listens_) return;
  const std::lock_guard lock(slices_mutex_);
  Slice& slice = running_[static_cast<std::size_t>(role)];
  if (slice.begin != nullptr) static_cast<void>(cudaEventDestroy(slice.begin));  // it never began
  slice = {role, std::string(operation), timing_event(role)};
}

void CudaStreams::done(StreamRole role) {
  if (!listens_) return;
  const std::lock_guard lock(slices_mutex_);
  Slice& slice = running_[static_cast<std::size_t>(role)];
  if (slice.begin == nullptr) return;
  slice.end = timing_event(role);
  slices_.push_back(std::exchange(slice, {}));
}

void CudaStreams::host_uses(std::string_view, std::span<const Region>, std::span<const Region>) {}

void CudaStreams::mark_phase(std::string_view phase) {
  // One range per thread and phase: the next phase ends it.
  static thread_local bool is_open = false;
  if (is_open) nvtxRangePop();
  is_open = !phase.empty();
  if (is_open) nvtxRangePushA(std::string(phase).c_str());
}

cudaEvent_t CudaStreams::timing_event(StreamRole role) {
  make_current();
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreate(&event), "cudaEventCreate");
  check_cuda(cudaEventRecord(event, stream_of(role)), "cudaEventRecord");
  return event;
}

void CudaStreams::drop_slices() noexcept {
  const auto destroy = [](const Slice& slice) {
    if (slice.begin != nullptr) static_cast<void>(cudaEventDestroy(slice.begin));
    if (slice.end != nullptr) static_cast<void>(cudaEventDestroy(slice.end));
  };
  for (Slice& slice : slices_) destroy(slice);
  for (Slice& slice : running_) destroy(std::exchange(slice, {}));
  slices_.clear();
  if (zero_ != nullptr) static_cast<void>(cudaEventDestroy(std::exchange(zero_, nullptr)));
}

void CudaStreams::set_listener(std::function<void(const StreamSlice&)> listener) {
  const std::lock_guard lock(slices_mutex_);
  drop_slices();
  listener_ = std::move(listener);
  listens_ = static_cast<bool>(listener_);
  if (!listens_) return;
  zero_ = timing_event(StreamRole::kCompute);
  check_cuda(cudaEventSynchronize(zero_), "cudaEventSynchronize");
  zero_seconds_ = now_in_seconds();
}

void CudaStreams::report_slices() {
  make_current();
  const std::lock_guard lock(slices_mutex_);
  while (!slices_.empty() && cudaEventQuery(slices_.front().end) == cudaSuccess) {
    const Slice slice = std::move(slices_.front());
    slices_.pop_front();
    float begin = 0;
    float length = 0;
    check_cuda(cudaEventElapsedTime(&begin, zero_, slice.begin), "cudaEventElapsedTime");
    check_cuda(cudaEventElapsedTime(&length, slice.begin, slice.end), "cudaEventElapsedTime");
    const double from = zero_seconds_ + double{begin} / 1e3;
    listener_({slice.role, slice.operation, from, from + double{length} / 1e3});
    static_cast<void>(cudaEventDestroy(slice.begin));
    static_cast<void>(cudaEventDestroy(slice.end));
  }
}

}  // namespace ultra::gpu
