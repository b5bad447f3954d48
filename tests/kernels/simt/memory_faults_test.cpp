// Wrong accesses: each is a fault that names the line, the thread, what was touched and its extent.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace memory_faults_test {

constexpr int kShiftLoad = __LINE__ + 3;
__global__ void shift_kernel(const float* in, float* out, int shift) {
  const int thread = static_cast<int>(threadIdx.x);
  const float value = ldg(&in[thread + shift]);
  stg(&out[thread], value);
}

TEST(MemoryFaults, ALoadBehindABuffer) {
  const Buffer<float> in("input", std::vector<float>(40, 1.0F));
  Buffer<float> out("output", std::size_t{64});
  expect_fault(Fault::kOutOfBounds,
               {"kernel at ", line_text(kShiftLoad), "block (0, 0, 0)", "thread (37, 0, 0)",
                "reads 4 bytes", "index 40", "'input'", "below 40"},
               [&] { launch(shift_kernel, one_block(64), in.data(), out.data(), 3); });
}

TEST(MemoryFaults, ALoadBeforeABuffer) {
  const Buffer<float> in("input", std::vector<float>(40, 1.0F));
  Buffer<float> out("output", std::size_t{64});
  expect_fault(Fault::kOutOfBounds, {"thread (0, 0, 0)", "index -1 of buffer 'input'"},
               [&] { launch(shift_kernel, one_block(32), in.data(), out.data(), -1); });
}

TEST(MemoryFaults, AStoreBehindABuffer) {
  const Buffer<float> in("input", std::vector<float>(64, 1.0F));
  Buffer<float> out("output", std::size_t{63});
  expect_fault(Fault::kOutOfBounds, {"thread (63, 0, 0)", "writes 4 bytes at index 63", "'output'"},
               [&] { launch(shift_kernel, one_block(64), in.data(), out.data(), 0); });
}

TEST(MemoryFaults, ANullPointer) {
  Buffer<float> out("output", std::size_t{64});
  expect_fault(Fault::kOutOfBounds, {"outside every buffer", "null"},
               [&] { launch(shift_kernel, one_block(64), nullptr, out.data(), 0); });
}

TEST(MemoryFaults, MemoryNobodyHasWritten) {
  const Buffer<float> in("input", std::size_t{64});
  Buffer<float> out("output", std::size_t{64});
  expect_fault(Fault::kUninitialised, {"reads element 5 of buffer 'input'", "upload"},
               [&] { launch(shift_kernel, one_block(32), in.data(), out.data(), 5); });
}

TEST(MemoryFaults, WhatAKernelHasWrittenCanBeRead) {
  const Buffer<float> in("input", std::vector<float>(32, 1.0F));
  Buffer<float> middle("middle", std::size_t{32});
  Buffer<float> out("output", std::size_t{32});
  launch(shift_kernel, one_block(32), in.data(), middle.data(), 0);
  launch(shift_kernel, one_block(32), middle.data(), out.data(), 0);
  EXPECT_EQ(out.download(), std::vector<float>(32, 1.0F));
}

__global__ void vector_kernel(float* data, int offset) {
  const auto* vectors = reinterpret_cast<const float4*>(data + offset);
  const float4 value = ldg(&vectors[threadIdx.x]);
  stg(&data[threadIdx.x], value.x);
}

TEST(MemoryFaults, AMisalignedVector) {
  Buffer<float> data("data", std::vector<float>(64, 1.0F));
  EXPECT_NO_THROW(launch(vector_kernel, one_block(4), data.data(), 4));
  expect_fault(Fault::kMisaligned, {"16 bytes", "'data' at byte 4", "a multiple of 16"},
               [&] { launch(vector_kernel, one_block(4), data.data(), 1); });
}

TEST(MemoryFaults, AVectorThatReachesOut) {
  Buffer<float> data("data", std::vector<float>(62, 1.0F));
  expect_fault(Fault::kOutOfBounds, {"thread (15, 0, 0)", "reads 16 bytes at index 60", "below 62"},
               [&] { launch(vector_kernel, one_block(16), data.data(), 0); });
}

__global__ void static_shared_kernel(int count) {
  __shared__ float numbers[48];
  const int thread = static_cast<int>(threadIdx.x);
  sts(&numbers[0], 0.0F);
  if (thread < count) {
    sts(&numbers[thread + 1], 1.0F);
  }
}

TEST(MemoryFaults, BehindASharedArray) {
  EXPECT_NO_THROW(launch(static_shared_kernel, one_block(64), 47));
  expect_fault(Fault::kOutOfBounds,
               {"thread (47, 0, 0)", "writes 4 bytes at byte 192 of static_shared_kernel::numbers",
                "192 bytes"},
               [&] { launch(static_shared_kernel, one_block(64), 48); });
}

template <int size>
__global__ void template_kernel(int index) {
  __shared__ float numbers[static_cast<std::size_t>(size)];
  sts(&numbers[0], 0.0F);
  sts(&numbers[index], 1.0F);
}

TEST(MemoryFaults, BehindASharedArrayOfATemplate) {
  EXPECT_NO_THROW(launch(template_kernel<32>, one_block(1), 31));
  EXPECT_NO_THROW(launch(template_kernel<64>, one_block(1), 63));
  expect_fault(Fault::kOutOfBounds, {"byte 128 of template_kernel<32>::numbers"},
               [&] { launch(template_kernel<32>, one_block(1), 32); });
  expect_fault(Fault::kOutOfBounds, {"byte 256 of template_kernel<64>::numbers"},
               [&] { launch(template_kernel<64>, one_block(1), 64); });
}

__global__ void dynamic_shared_kernel() {
  auto* const numbers = dynamic_shared<float>();
  sts(&numbers[threadIdx.x], 1.0F);
}

TEST(MemoryFaults, BehindDynamicSharedMemory) {
  EXPECT_NO_THROW(launch(dynamic_shared_kernel, one_block(32, 128)));
  expect_fault(Fault::kOutOfBounds, {"byte 124 of dynamic shared memory", "its 124 bytes"},
               [&] { launch(dynamic_shared_kernel, one_block(32, 124)); });
  expect_fault(Fault::kOutOfBounds, {"set Config::shared_bytes"},
               [&] { launch(dynamic_shared_kernel, one_block(32)); });
}

__global__ void uninitialised_kernel(float* out, int written) {
  __shared__ float numbers[32];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < written) {
    sts(&numbers[thread], 1.0F);
  }
  __syncthreads();
  stg(&out[thread], lds(&numbers[31 - thread]));
}

TEST(MemoryFaults, SharedMemoryNobodyHasWritten) {
  Buffer<float> out("output", std::size_t{32});
  EXPECT_NO_THROW(launch(uninitialised_kernel, one_block(32), out.data(), 32));
  expect_fault(Fault::kUninitialised,
               {"thread (0, 0, 0)", "byte 124 of uninitialised_kernel::numbers", "zeros"},
               [&] { launch(uninitialised_kernel, one_block(32), out.data(), 31); });
}

__global__ void first_block_writes_kernel(float* out) {
  __shared__ float number;
  if (blockIdx.x == 0) {
    sts(&number, 1.0F);
  }
  stg(&out[blockIdx.x], lds(&number));
}

TEST(MemoryFaults, ABlockSeesNothingOfTheBlockBefore) {
  Buffer<float> out("output", std::size_t{2});
  const Config two_blocks{.name = "kernel", .grid = {.x = 2}, .block = {}};
  expect_fault(Fault::kUninitialised, {"block (1, 0, 0)", "no thread of this block"},
               [&] { launch(first_block_writes_kernel, two_blocks, out.data()); });
}

__global__ void plain_read_kernel(float* out) {
  __shared__ float number;
  if (blockIdx.x == 0) {
    sts(&number, 1.0F);
  }
  stg(&out[blockIdx.x], number);
}

TEST(MemoryFaults, UncheckedReadsOfAnOldBlockSeePoison) {
  Buffer<float> out("output", std::size_t{2});
  launch(plain_read_kernel, {.name = "kernel", .grid = {.x = 2}, .block = {}}, out.data());
  EXPECT_EQ(out.download().at(0), 1.0F);
  EXPECT_TRUE(std::isnan(out.download().at(1)));
}

__global__ void wrong_memory_kernel(float* data, int which) {
  __shared__ float number;
  if (which == 0) {
    sts(data, 1.0F);
  } else {
    stg(&number, 1.0F);
  }
}

TEST(MemoryFaults, TheWrongKindOfMemory) {
  Buffer<float> data("data", std::size_t{1});
  expect_fault(Fault::kWrongMemory, {"'data'", "stg()"},
               [&] { launch(wrong_memory_kernel, one_block(1), data.data(), 0); });
  expect_fault(Fault::kWrongMemory, {"wrong_memory_kernel::number", "sts()"},
               [&] { launch(wrong_memory_kernel, one_block(1), data.data(), 1); });
}

TEST(MemoryFaults, ALaunchAfterAFaultIsClean) {
  const Buffer<float> in("input", std::vector<float>(32, 2.0F));
  Buffer<float> out("output", std::size_t{32});
  EXPECT_THROW(launch(shift_kernel, one_block(32), in.data(), out.data(), 1), SimtError);
  const Report report = recorded(shift_kernel, one_block(32), in.data(), out.data(), 0);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).requests, 1U);
  EXPECT_EQ(out.download(), std::vector<float>(32, 2.0F));
}

TEST(Buffers, MoveWithTheirMemory) {
  Buffer<int> first("first", std::vector<int>{1, 2, 3});
  const int* const address = first.data();
  Buffer<int> second = std::move(first);
  EXPECT_EQ(second.data(), address);
  second = Buffer<int>("third", std::vector<int>{4});
  EXPECT_EQ(second.download(), std::vector<int>{4});
  EXPECT_THROW(second.upload(std::vector<int>{1, 2}), std::invalid_argument);
}

}  // namespace memory_faults_test
}  // namespace ultra::simt::test
