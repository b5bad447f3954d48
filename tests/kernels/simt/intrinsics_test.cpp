// Built-in variables, warp operations and atomics against their definitions.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace intrinsics_test {

__global__ void index_kernel(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  __syncthreads();  // the variables are the thread's own behind a switch, too
  stg(&out[block * threads + thread], threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z +
                                          1000 * blockIdx.x + 10000 * blockIdx.y +
                                          100000 * blockIdx.z);
}

TEST(Intrinsics, EveryThreadOfEveryBlockRunsOnce) {
  const Config config{
      .name = "index", .grid = {.x = 2, .y = 3, .z = 2}, .block = {.x = 5, .y = 4, .z = 3}};
  Buffer<unsigned> out("out", config.grid.count() * config.block.count());
  launch(index_kernel, config, out.data());
  std::vector<unsigned> expected;
  for (unsigned block = 0; block < 12; ++block) {
    for (unsigned thread = 0; thread < 60; ++thread) {
      expected.push_back(thread % 5 + 10 * (thread / 5 % 4) + 100 * (thread / 20) +
                         1000 * (block % 2) + 10000 * (block / 2 % 3) + 100000 * (block / 6));
    }
  }
  EXPECT_EQ(out.download(), expected);
}

enum class Shuffle { kIndex, kUp, kDown, kXor };

__global__ void shuffle_kernel(int* out, Shuffle which, int argument, int width) {
  const int lane = static_cast<int>(threadIdx.x);
  int value = 0;
  switch (which) {
    case Shuffle::kIndex:
      value = __shfl_sync(kAllLanes, lane, argument, width);
      break;
    case Shuffle::kUp:
      value = __shfl_up_sync(kAllLanes, lane, static_cast<unsigned>(argument), width);
      break;
    case Shuffle::kDown:
      value = __shfl_down_sync(kAllLanes, lane, static_cast<unsigned>(argument), width);
      break;
    case Shuffle::kXor:
      value = __shfl_xor_sync(kAllLanes, lane, argument, width);
      break;
  }
  stg(&out[lane], value);
}

int expected_source(Shuffle which, int lane, int argument, int width) {
  const int first = lane / width * width;
  const int end = first + width;
  switch (which) {
    case Shuffle::kIndex:
      return first + argument % width;
    case Shuffle::kUp:
      return lane - argument < first ? lane : lane - argument;
    case Shuffle::kDown:
      return lane + argument >= end ? lane : lane + argument;
    case Shuffle::kXor:
      break;
  }
  return (lane ^ argument) >= end ? lane : lane ^ argument;
}

TEST(Intrinsics, Shuffles) {
  Buffer<int> out("out", std::size_t{32});
  for (const Shuffle which : {Shuffle::kIndex, Shuffle::kUp, Shuffle::kDown, Shuffle::kXor}) {
    for (const int width : {4, 16, 32}) {
      for (const int argument : {0, 1, 3, 8, 17, 31}) {
        launch(shuffle_kernel, one_block(32), out.data(), which, argument, width);
        const std::vector<int> result = out.download();
        for (int lane = 0; lane < 32; ++lane) {
          ASSERT_EQ(at(result, lane), expected_source(which, lane, argument, width))
              << "shuffle " << static_cast<int>(which) << ", " << argument << " of " << width;
        }
      }
    }
  }
}

__global__ void vote_kernel(unsigned* out, int threshold) {
  const int lane = static_cast<int>(threadIdx.x);
  const int holds = lane >= threshold ? 1 : 0;
  stg(&out[lane], __ballot_sync(kAllLanes, holds));
  stg(&out[32 + lane], static_cast<unsigned>(__any_sync(kAllLanes, holds)));
  stg(&out[64 + lane], static_cast<unsigned>(__all_sync(kAllLanes, holds)));
}

TEST(Intrinsics, Votes) {
  Buffer<unsigned> out("out", std::size_t{96});
  for (const int threshold : {0, 1, 31, 32}) {
    launch(vote_kernel, one_block(32), out.data(), threshold);
    const std::vector<unsigned> result = out.download();
    for (int lane = 0; lane < 32; ++lane) {
      ASSERT_EQ(at(result, lane), threshold == 32 ? 0U : 0xffffffffU << threshold);
      ASSERT_EQ(at(result, 32 + lane), threshold < 32 ? 1U : 0U);
      ASSERT_EQ(at(result, 64 + lane), threshold == 0 ? 1U : 0U);
    }
  }
}

__global__ void halves_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  // The halves of the warp meet apart, in another order than their lanes'.
  const unsigned mask = lane < 16 ? 0x0000ffffU : 0xffff0000U;
  int value = lane;
  for (int distance = 8; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(mask, value, distance);
  }
  __syncwarp(mask);
  stg(&out[lane], value);
}

TEST(Intrinsics, PartsOfAWarpMeetOnTheirOwn) {
  Buffer<int> out("out", std::size_t{32});
  launch(halves_kernel, one_block(32), out.data());
  EXPECT_EQ(out.download().at(3), 120);
  EXPECT_EQ(out.download().at(20), 120 + 16 * 16);
}

__global__ void reduce_kernel(const float* in, float* sums, float* largest) {
  const float value = ldg(&in[threadIdx.x]);
  const float sum = warp_sum(value);
  const float most = warp_max(value);
  stg(&sums[threadIdx.x], sum);
  stg(&largest[threadIdx.x], most);
}

TEST(Intrinsics, WarpReductions) {
  const std::vector<float> values = whole_numbers<float>(64);
  const Buffer<float> in("in", values);
  Buffer<float> sums("sums", std::size_t{64});
  Buffer<float> largest("largest", std::size_t{64});
  launch(reduce_kernel, one_block(64), in.data(), sums.data(), largest.data());
  for (int warp = 0; warp < 2; ++warp) {
    float sum = 0.0F;
    float most = 0.0F;
    for (int lane = 0; lane < 32; ++lane) {
      sum += at(values, warp * 32 + lane);
      most = std::max(most, at(values, warp * 32 + lane));
    }
    EXPECT_EQ(at(sums.download(), warp * 32 + 5), sum);
    EXPECT_EQ(at(largest.download(), warp * 32 + 31), most);
  }
}

template <typename T>
__global__ void atomics_kernel(T* values, T* before) {
  const T thread = static_cast<T>(threadIdx.x);
  atomicAdd(&values[0], thread);
  atomicMax(&values[1], thread);
  atomicMin(&values[2], thread);
  stg(&before[threadIdx.x], atomicExch(&values[3], thread));
  atomicCAS(&values[4], static_cast<T>(7), static_cast<T>(8));
}

template <typename T>
void expect_atomics() {
  Buffer<T> values("values", std::vector<T>{0, 5, 5, 100, 7});
  Buffer<T> before("before", std::size_t{40});
  launch(atomics_kernel<T>, one_block(40), values.data(), before.data());
  EXPECT_EQ(values.download(), (std::vector<T>{780, 39, 0, 39, 8}));
  EXPECT_EQ(before.download().at(0), T{100});
  EXPECT_EQ(before.download().at(1), T{0});
}

TEST(Intrinsics, Atomics) {
  expect_atomics<int>();
  expect_atomics<unsigned>();
  expect_atomics<float>();
  expect_atomics<double>();
}

__global__ void dynamic_kernel(int* out, int count) {
  auto* const numbers = dynamic_shared<int>();
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < count; i += 64) {
    sts(&numbers[i], 3 * i);
  }
  __syncthreads();  // other threads stored what this one loads
  for (int i = thread; i < count; i += 64) {
    stg(&out[i], lds(&numbers[count - 1 - i]));
  }
}

// Functions of numbers that CUDA has under these names; `out` is [8].
__global__ void functions_kernel(float* out, float x) {
  float sine = 0.0F;
  float cosine = 0.0F;
  sincospif(x, &sine, &cosine);
  stg(&out[0], sine);
  stg(&out[1], cosine);
  stg(&out[2], rsqrtf(x));
  stg(&out[3], expf(x));
  stg(&out[4], logf(x));
  stg(&out[5], fmaxf(x, 1.0F));
  stg(&out[6], fmaxf(-INFINITY, x));
  stg(&out[7], expf(-INFINITY));
}

TEST(Intrinsics, FunctionsOfNumbers) {
  constexpr double kPi = 3.14159265358979323846;
  for (const float x : {0.25F, 1.0F, 1.75F, 1000.5F}) {
    Buffer<float> out("out", std::size_t{8});
    launch(functions_kernel, one_block(1), out.data(), x);
    const std::vector<float> found = out.download();
    const double turn = kPi * std::fmod(double{x}, 2.0);
    EXPECT_NEAR(at(found, 0), std::sin(turn), 1e-6);
    EXPECT_NEAR(at(found, 1), std::cos(turn), 1e-6);
    EXPECT_FLOAT_EQ(at(found, 2), static_cast<float>(1.0 / std::sqrt(double{x})));
    EXPECT_FLOAT_EQ(at(found, 3), static_cast<float>(std::exp(double{x})));
    EXPECT_NEAR(at(found, 4), std::log(double{x}), 1e-6);
    EXPECT_EQ(at(found, 5), std::max(x, 1.0F));
    EXPECT_EQ(at(found, 6), x);
    EXPECT_EQ(at(found, 7), 0.0F);
  }
}

TEST(Intrinsics, AllOfTheDynamicSharedMemory) {
  constexpr int kCount = static_cast<int>(kMostSharedBytes / sizeof(int));
  Buffer<int> out("out", std::size_t{kCount});
  launch(dynamic_kernel, one_block(64, kMostSharedBytes), out.data(), kCount);
  EXPECT_EQ(at(out.download(), 0), 3 * (kCount - 1));
  EXPECT_EQ(at(out.download(), kCount - 1), 0);
}

TEST(Intrinsics, LaunchesRunSideBySide) {
  const auto run_many = [] {
    for (int round = 0; round < 20; ++round) {
      Buffer<int> out("out", std::size_t{1000});
      launch(dynamic_kernel, one_block(64, 4000), out.data(), 1000);
      EXPECT_EQ(at(out.download(), 0), 3 * 999);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(run_many);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace intrinsics_test
}  // namespace ultra::simt::test
