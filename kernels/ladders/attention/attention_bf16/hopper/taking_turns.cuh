#pragma once
/// @file
/// Warpgroups that multiply one after the other, for rungs 5 and 6.

#include "kernels/hopper/wgmma.cuh"

namespace ultra::kernels::attention_bf16 {
namespace {

using namespace hopper;

// In a ring: each warpgroup waits for the one before it. Barrier 1 + w of the hardware (0 is
// __syncthreads()) is for warpgroup w: its 128 threads wait there, the 128 of the one before
// arrive.
//
// Arrivals and waits come out even: of n tiles behind the first, warpgroup w waits n times for n
// passes; but warpgroup 0 begins with a pass from the last one, and ends with one wait more.
template <int count>
class TakingTurns {
 public:
  __device__ __forceinline__ explicit TakingTurns(int warpgroup) : own_(warpgroup) {}

  // The last warpgroup lets the first one go ahead.
  __device__ __forceinline__ void begin() const {
    if (own_ == count - 1) {
      pass();
    }
  }
  __device__ __forceinline__ void wait() const {
    __syncwarp();  // lanes may have left a wait one by one; the barrier takes whole warps
    wait_at_named<2 * kWarpgroup>(1 + own_);
  }
  __device__ __forceinline__ void pass() const {
    arrive_at_named<2 * kWarpgroup>(1 + (own_ + 1) % count);
  }
  __device__ __forceinline__ void end() const {
    if (own_ == 0) {
      wait();
    }
  }

 private:
  int own_;
};

}  // namespace
}  // namespace ultra::kernels::attention_bf16
