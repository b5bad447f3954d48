#include "common/gpu/meta/meta_runtime.hpp"

#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "common/base/numeric.hpp"
#include "common/gpu/meta/meta_streams.hpp"
#include "common/gpu/order_checker.hpp"
#include "kernels/table/table.hpp"

namespace ultra::gpu {
namespace {

constexpr std::size_t kMetaAlignment = 256;
constexpr auto kMetaPinnedAlignment = std::align_val_t{64};
/// Above what a process of 48-bit addresses has: a look at it ends the program.
constexpr std::uintptr_t kFirstAddress = std::uintptr_t{1} << 56;

/// Becomes any function, which does nothing.
struct Nothing {
  template <class Result, class... Arguments>
  using Function = Result (*)(Arguments...);

  template <class Result, class... Arguments>
  operator Function<Result, Arguments...>() const {  // NOLINT(google-explicit-constructor)
    return [](Arguments...) -> Result { return Result(); };
  }
};

template <std::size_t... rows>
kernels::Table table_of_nothing(std::index_sequence<rows...>) {
  return {(static_cast<void>(rows), Nothing())...};
}

const kernels::Table& kernels_that_do_nothing() {
  constexpr std::size_t kRows = sizeof(kernels::Table) / sizeof(void (*)());
  static const kernels::Table table = table_of_nothing(std::make_index_sequence<kRows>());
  return table;
}

class MetaRuntime : public Runtime {
 public:
  MetaRuntime(Tape& tape, bool checks_order)
      : tape_(tape), checker_(checks_order ? std::make_unique<OrderChecker>() : nullptr) {}

  const DeviceProperties& properties() const override { return properties_; }
  const kernels::Table& kernels() const override { return kernels_that_do_nothing(); }

  void* allocate(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const std::uintptr_t block = next_;
    next_ += round_up(bytes, kMetaAlignment) + kMetaAlignment;
    return reinterpret_cast<void*>(block);  // NOLINT(performance-no-int-to-ptr)
  }

  void release(void* block, std::size_t bytes) noexcept override {
    if (checker_) checker_->forget(block, bytes);
  }

  void* allocate_pinned(std::size_t bytes) override {
    return ::operator new(bytes, kMetaPinnedAlignment);
  }

  void release_pinned(void* block, std::size_t) noexcept override {
    ::operator delete(block, kMetaPinnedAlignment);
  }

  std::size_t free_bytes() const override { return 0; }
  bool host_can_read() const override { return false; }

  std::unique_ptr<Streams> make_streams(int rank) override {
    return std::make_unique<MetaStreams>(tape_, checker_.get(), rank);
  }

 private:
  Tape& tape_;
  std::unique_ptr<OrderChecker> checker_;  // null: nobody asks
  DeviceProperties properties_ = {.name = "meta", .id = "meta"};
  std::mutex mutex_;
  std::uintptr_t next_ = kFirstAddress;
};

}  // namespace

std::shared_ptr<Runtime> make_meta_runtime(Tape& tape, bool checks_order) {
  return std::make_shared<MetaRuntime>(tape, checks_order);
}

}  // namespace ultra::gpu
