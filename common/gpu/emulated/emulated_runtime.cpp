#include <new>

#include "common/gpu/emulated/emulated_streams.hpp"
#include "common/gpu/runtime.hpp"
#include "kernels/table/table.hpp"

namespace ultra::gpu {
namespace {

constexpr auto kDeviceAlignment = std::align_val_t{256};
constexpr auto kPinnedAlignment = std::align_val_t{64};

/// One for all ranks of the process, which work on each other's memory; never destroyed, because
/// tensors may live until the process ends.
OrderChecker& checker_of_this_process() {
  static OrderChecker& checker = *new OrderChecker;
  return checker;
}

class EmulatedRuntime : public Runtime {
 public:
  const DeviceProperties& properties() const override { return properties_; }
  const kernels::Table& kernels() const override { return kernels::table<simt::Side::kBare>(); }

  void* allocate(std::size_t bytes) override { return ::operator new(bytes, kDeviceAlignment); }

  void release(void* block, std::size_t bytes) noexcept override {
    checker_of_this_process().forget(block, bytes);
    ::operator delete(block, kDeviceAlignment);
  }

  void* allocate_pinned(std::size_t bytes) override {
    return ::operator new(bytes, kPinnedAlignment);
  }

  void release_pinned(void* block, std::size_t) noexcept override {
    ::operator delete(block, kPinnedAlignment);
  }

  std::size_t free_bytes() const override { return 0; }
  bool host_can_read() const override { return true; }

  std::unique_ptr<Streams> make_streams(int rank) override {
    return std::make_unique<EmulatedStreams>(checker_of_this_process(), rank);
  }

 private:
  DeviceProperties properties_ = {.name = "emulated", .id = "emulated"};
};

}  // namespace

std::shared_ptr<Runtime> make_emulated_runtime() { return std::make_shared<EmulatedRuntime>(); }

}  // namespace ultra::gpu
