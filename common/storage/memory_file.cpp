#include <fmt/format.h>

#include <cstring>
#include <new>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/units.hpp"
#include "common/storage/pool_file.hpp"
#include "common/storage/storage.hpp"
#include "common/storage/transfer_threads.hpp"

namespace ultra::storage {
namespace {

class MemoryFile final : public AsyncFile {
 public:
  explicit MemoryFile(std::uint64_t bytes) : memory_(bytes) {}

  Transfer read_async(std::uint64_t offset, std::span<std::byte> out) override {
    expect_in_file(offset, out.size(), memory_.size());
    return threads_.read(
        [this, offset, out] { copy(out.data(), memory_.data() + offset, out.size()); });
  }

  Transfer write_async(std::uint64_t offset, std::span<const std::byte> bytes) override {
    expect_in_file(offset, bytes.size(), memory_.size());
    return threads_.write(
        [this, offset, bytes] { copy(memory_.data() + offset, bytes.data(), bytes.size()); });
  }

  std::uint64_t size() const override { return memory_.size(); }

 private:
  static void copy(std::byte* to, const std::byte* from, std::size_t count) {
    if (count > 0) std::memcpy(to, from, count);  // an empty span's pointer may be null
  }

  std::vector<std::byte> memory_;
  TransferThreads threads_;
};

}  // namespace

std::unique_ptr<AsyncFile> host_memory(std::uint64_t bytes) {
  try {
    return std::make_unique<MemoryFile>(bytes);
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  throw OutOfMemory(
      fmt::format("the host has no {} left for what is offloaded to its memory. "
                  "Offload to a file, or use more ranks.",
                  format_bytes(bytes)));
}

}  // namespace ultra::storage
