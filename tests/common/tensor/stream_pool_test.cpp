#include "common/tensor/stream_pool.hpp"

#include "common/gpu/order_checker.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using enum gpu::StreamRole;

/// The emulated device with a pool.
class EmulatedPool {
 public:
  std::shared_ptr<gpu::Runtime> runtime = gpu::make_emulated_runtime();
  std::unique_ptr<gpu::Streams> streams = runtime->make_streams(0);
  StreamPool pool{*runtime, *streams};

  void writes(gpu::StreamRole role, void* block) const {
    const gpu::Launch launch(*streams, role, "a write", {}, {{block, 64}});
  }
};

TEST(StreamPool, ABlockComesBackToItsOwnStreamAtOnce) {
  EmulatedPool device;
  void* const block = device.pool.allocate(64, kCompute);
  device.writes(kCompute, block);
  device.pool.release(block, 64);
  void* const next = device.pool.allocate(64, kCompute);
  EXPECT_EQ(next, block);
  device.writes(kCompute, next);
  EXPECT_EQ(device.pool.system_allocations(), 1U);
  device.pool.release(next, 64);
}

TEST(StreamPool, AnotherStreamGetsAnotherBlock) {
  EmulatedPool device;
  void* const block = device.pool.allocate(64, kCompute);
  device.writes(kCompute, block);
  device.pool.release(block, 64);
  void* const other = device.pool.allocate(64, kCommunication);
  EXPECT_NE(other, block);
  device.writes(kCommunication, other);
  EXPECT_EQ(device.pool.reserved_bytes(), 128U);
  device.pool.release(other, 64);
}

TEST(StreamPool, AUseOnAnotherStreamThatNobodyToldIsFound) {
  EmulatedPool device;
  void* const block = device.pool.allocate(64, kCompute);
  device.writes(kCommunication, block);
  device.pool.release(block, 64);
  void* const next = device.pool.allocate(64, kCompute);
  EXPECT_EQ(next, block);
  EXPECT_THROW(device.writes(kCompute, next), gpu::OrderError);
  device.pool.release(next, 64);
}

TEST(StreamPool, AUseOnAnotherStreamIsWaitedForByTheNextOwner) {
  EmulatedPool device;
  void* const block = device.pool.allocate(64, kCompute);
  device.pool.used_on(block, kCommunication);
  device.writes(kCommunication, block);
  device.pool.release(block, 64);
  void* const next = device.pool.allocate(64, kCompute);
  EXPECT_EQ(next, block);
  device.writes(kCompute, next);
  EXPECT_EQ(device.streams->synchronizations(), 0U);
  device.pool.release(next, 64);
}

}  // namespace
}  // namespace ultra
