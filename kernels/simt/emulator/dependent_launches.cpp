// Launches that may begin before the one before them has ended. The emulator runs them one after the
// other, so their results are those of the right order; it checks that any other order would give the
// same: until a thread has waited, it writes nothing and reads nothing that a kernel before it may
// still write. Those are all back to the last one that began when everything before it had ended: a
// kernel may let the next one begin before it has waited itself.

#include <fmt/format.h>

#include <algorithm>

#include "kernels/simt/emulator/engine.hpp"

namespace ultra::simt::emulator {

void Engine::start_order(const Config& config) {
  if (config.start == Start::kBehindTheKernelBefore) {
    written_now_.clear();
  }
  written_before_ = written_now_;
  recently_written_ = nullptr;
  has_anyone_waited_ = false;
}

void Engine::end_order(const Config& config) {
  if (config.start == Start::kBesideTheKernelBefore && is_checked_ && !has_anyone_waited_ &&
      !error_) {
    error_ = std::make_exception_ptr(SimtError(
        Fault::kOrder,
        fmt::format("kernel {} begins beside the kernel before and no thread of it waits for that, "
                    "expected a wait: what comes behind it takes both for ended. Hint: call "
                    "wait_for_kernel_before() in every thread",
                    config.name)));
  }
}

void Engine::note_wait_for_kernel_before() {
  threads_[running_].has_waited = true;
  has_anyone_waited_ = true;
}

void Engine::note_order(const Access& access, BufferRecord* buffer) {
  const bool is_write = access.operation != Operation::kLoad;
  if (is_write && buffer != recently_written_) {
    recently_written_ = buffer;
    const auto is_it = [buffer](const auto& record) { return record.get() == buffer; };
    if (std::ranges::none_of(written_now_, is_it)) {
      written_now_.push_back(*std::ranges::find_if(buffers_, is_it));
    }
  }
  if (config_->start == Start::kBehindTheKernelBefore || threads_[running_].has_waited) {
    return;
  }
  const bool is_pending = std::ranges::any_of(
      written_before_, [buffer](const auto& record) { return record.get() == buffer; });
  if (is_write || is_pending) {
    fail(Fault::kOrder, access.place,
         fmt::format(
             "{} buffer '{}' before it has waited for the kernel before, which may still {} "
             "it, expected wait_for_kernel_before() first. Hint: before the wait, load only "
             "what no kernel of the chain writes, as weights",
             is_write ? "writes" : "reads", buffer->name, is_write ? "read or write" : "write"));
  }
}

void note_wait_for_kernel_before() { Engine::of_this_thread().note_wait_for_kernel_before(); }

}  // namespace ultra::simt::emulator
