#include "common/comm/device/staging.hpp"

#include <utility>

namespace ultra::comm {
namespace {

constexpr auto kRole = gpu::StreamRole::kCommunication;

}  // namespace

HostBytes Staging::take(const DeviceMemory& memory, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const Device& host = memory.device().host();
  void* const block = host.allocate(bytes, MemoryCategory::kCommunication);
  return {static_cast<std::byte*>(block), [host, bytes](std::byte* taken) {
            host.release(taken, bytes, MemoryCategory::kCommunication);
          }};
}

gpu::Event Staging::download(const DeviceMemory& memory, const HostBytes& to, const void* from,
                             std::size_t bytes) {
  if (bytes == 0) return {};
  gpu::Streams& streams = memory.device().streams();
  {
    const gpu::Launch launch(streams, kRole, memory.operation(), {{from, bytes}}, {});
    streams.copy(kRole, to.get(), from, bytes, gpu::CopyKind::kDeviceToHost);
  }
  return memory.record();
}

void Staging::upload(const DeviceMemory& memory, void* to, const HostBytes& from,
                     std::size_t bytes) {
  if (bytes == 0) return;
  gpu::Streams& streams = memory.device().streams();
  {
    const gpu::Launch launch(streams, kRole, memory.operation(), {}, {{to, bytes}});
    streams.copy(kRole, to, from.get(), bytes, gpu::CopyKind::kHostToDevice);
  }
  keep(memory, memory.record(), from);
}

void Staging::keep(const DeviceMemory& memory, const gpu::Event& until, HostBytes bytes) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(kept_,
                [](const Kept& kept) { return kept.device.streams().has_passed(kept.until); });
  kept_.push_back({.device = memory.device(), .until = until, .bytes = std::move(bytes)});
}

}  // namespace ultra::comm
