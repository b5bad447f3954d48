#pragma once
/// @file
/// Which global memory exists: every Buffer of the checked emulator is listed here.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// @brief What runs kernels on any CPU: threads as fibers, and what observes them.
namespace ultra::simt::emulator {

/// @brief What is known of one buffer.
struct BufferRecord {
  /// @brief A buffer of which no byte is written yet.
  BufferRecord(std::string buffer_name, const void* address, std::size_t byte_count,
               std::size_t bytes_per_element);

  /// @brief The buffer's name.
  std::string name;
  /// @brief Address of its first byte.
  std::uintptr_t begin;
  /// @brief Its extent in bytes.
  std::size_t bytes;
  /// @brief Bytes of one element.
  std::size_t element_size;
  /// @brief One entry per byte: 1 once it has been written.
  std::vector<std::uint8_t> written;

  /// @brief Whether an access lies inside.
  [[nodiscard]] bool contains(std::uintptr_t address, std::size_t size) const {
    return address >= begin && address - begin + size <= bytes;
  }
};

/// @brief Lists a buffer. Any thread may call it.
void add_buffer(std::shared_ptr<BufferRecord> record);

/// @brief Takes a buffer off the list. Any thread may call it.
void remove_buffer(const BufferRecord& record);

/// @brief The buffers of this moment, in the order of their addresses. Other threads may drop theirs
/// meanwhile: the records stay.
[[nodiscard]] std::vector<std::shared_ptr<BufferRecord>> all_buffers();

}  // namespace ultra::simt::emulator
