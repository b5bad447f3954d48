// Events of a GPU and CUDA's errors in words.

#include "common/gpu/cuda/event_pool.cuh"

#include <string>

#include "common/base/errors.hpp"

namespace ultra::gpu {
namespace {

const char* hint_for(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorMisalignedAddress:
      return "A kernel before this call has failed: compute-sanitizer names it.";
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
      return "The GPU itself has failed: use another one.";
    default:
      return "Does nvidia-smi work in this shell?";
  }
}

}  // namespace

void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw Error(std::string("device cuda: ") + call + ": " + cudaGetErrorString(status) + ". " +
              hint_for(status));
}

EventPool::~EventPool() {
  for (const cudaEvent_t event : waiting_) static_cast<void>(cudaEventDestroy(event));
}

cudaEvent_t EventPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!waiting_.empty()) {
      const cudaEvent_t event = waiting_.back();
      waiting_.pop_back();
      return event;
    }
  }
  check_cuda(cudaSetDevice(device_), "cudaSetDevice");
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  return event;
}

void EventPool::give_back(cudaEvent_t event) noexcept {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(event);
}

}  // namespace ultra::gpu
