#include "common/tensor/stream_pool.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "common/base/errors.hpp"

namespace ultra {
namespace {

std::uint8_t bit_of(gpu::StreamRole role) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(role));
}

MemorySource source_of(gpu::Runtime& runtime) {
  return {
      .take = [&runtime](std::size_t bytes) { return runtime.allocate(bytes); },
      .give_back = [&runtime](void* block, std::size_t bytes) { runtime.release(block, bytes); },
      .host_can_touch = runtime.host_can_read()};
}

}  // namespace

StreamPool::StreamPool(gpu::Runtime& runtime, gpu::Streams& streams)
    : streams_(streams),
      pools_{CachingAllocator(source_of(runtime)), CachingAllocator(source_of(runtime)),
             CachingAllocator(source_of(runtime))} {}

StreamPool::~StreamPool() {
  for (const Waiting& waiting : waiting_)
    pool_of(waiting.home).release(waiting.block, waiting.bytes);
}

void* StreamPool::allocate(std::size_t bytes, gpu::StreamRole role) {
  take_back_what_has_passed();
  void* block = nullptr;
  try {
    block = pool_of(role).allocate(bytes);
  } catch (const std::bad_alloc&) {
    give_everything_back();
    block = pool_of(role).allocate(bytes);
  }
  blocks_[block] = {.home = role};
  return block;
}

void StreamPool::release(void* block, std::size_t bytes) {
  const auto found = blocks_.find(block);
  ensure(found != blocks_.end(), "the released block is of this device");
  const Block what = found->second;
  blocks_.erase(found);
  Waiting waiting{.block = block, .bytes = bytes, .home = what.home, .uses = {}};
  try {
    for (const gpu::StreamRole role : gpu::kStreamRoles) {
      if ((what.others & bit_of(role)) != 0) waiting.uses.push_back(streams_.record(role));
    }
  } catch (const Error&) {
    return;  // the device has failed, and its error is on its way already: nobody gets the block again
  }
  if (waiting.uses.empty()) {
    take_back(waiting);
  } else {
    waiting_.push_back(std::move(waiting));
  }
}

void StreamPool::used_on(void* block, gpu::StreamRole role) {
  const auto found = blocks_.find(block);
  ensure(found != blocks_.end(), "the used block is of this device");
  if (role != found->second.home) found->second.others |= bit_of(role);
}

void StreamPool::take_back_what_has_passed() {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    const bool passed = std::ranges::all_of(
        waiting.uses, [&](const gpu::Event& use) { return streams_.has_passed(use); });
    if (passed) take_back(waiting);
    return passed;
  });
}

void StreamPool::take_back(const Waiting& waiting) {
  for (const gpu::Event& use : waiting.uses) streams_.follows(waiting.home, use);
  pool_of(waiting.home).release(waiting.block, waiting.bytes);
}

/// The device has no more: what waits in any pool is worth a wait.
void StreamPool::give_everything_back() {
  for (const Waiting& waiting : std::exchange(waiting_, {})) take_back(waiting);
  for (const gpu::StreamRole role : gpu::kStreamRoles) streams_.synchronize(role);
  for (CachingAllocator& pool : pools_) pool.trim();
}

std::size_t StreamPool::reserved_bytes() const {
  std::size_t bytes = 0;
  for (const CachingAllocator& pool : pools_) bytes += pool.reserved_bytes();
  return bytes;
}

std::size_t StreamPool::system_allocations() const {
  std::size_t times = 0;
  for (const CachingAllocator& pool : pools_) times += pool.system_allocations();
  return times;
}

}  // namespace ultra
