// The list of buffers: the only state that launches on several threads share.

#include "kernels/simt/emulator/memory/registry.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace ultra::simt::emulator {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::uintptr_t, std::shared_ptr<BufferRecord>> records;
};

// Never destroyed: a buffer may outlive every static object.
Registry& registry() {
  static auto* const the_registry = new Registry;
  return *the_registry;
}

}  // namespace

BufferRecord::BufferRecord(std::string buffer_name, const void* address, std::size_t byte_count,
                           std::size_t bytes_per_element)
    : name(std::move(buffer_name)),
      begin(reinterpret_cast<std::uintptr_t>(address)),
      bytes(byte_count),
      element_size(bytes_per_element),
      written(byte_count, 0) {}

void add_buffer(std::shared_ptr<BufferRecord> record) {
  const std::lock_guard lock(registry().mutex);
  const std::uintptr_t begin = record->begin;
  registry().records[begin] = std::move(record);
}

void remove_buffer(const BufferRecord& record) {
  const std::lock_guard lock(registry().mutex);
  registry().records.erase(record.begin);
}

std::vector<std::shared_ptr<BufferRecord>> all_buffers() {
  const std::lock_guard lock(registry().mutex);
  std::vector<std::shared_ptr<BufferRecord>> records;
  for (const auto& [begin, record] : registry().records) {
    records.push_back(record);
  }
  return records;
}

}  // namespace ultra::simt::emulator
