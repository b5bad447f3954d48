#pragma once
/// @file
/// What a Buffer holds: one allocation of one executor, without its element type.

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/simt/executor.hpp"

namespace ultra::simt::emulator {
struct BufferRecord;
}  // namespace ultra::simt::emulator

namespace ultra::simt {

/// @brief Alignment of every buffer in bytes, as cudaMalloc gives it: a warp's 128-byte access then
/// begins at a sector.
inline constexpr std::size_t kBufferAlignment = 256;

/// @brief A named allocation. The checked emulator knows its extent, and which of its bytes have been
/// written.
class Memory {
 public:
  /// @brief Allocates; the content is poison in the emulator: NaN in every floating format.
  /// @throws SimtError (Fault::kCuda) when the GPU has no such memory or there is no GPU.
  Memory(Executor executor, std::string name, std::size_t bytes, std::size_t element_size);
  /// @brief Frees.
  ~Memory();
  /// @brief Takes over another's allocation.
  Memory(Memory&& other) noexcept;
  /// @brief Swaps the allocations.
  Memory& operator=(Memory&& other) noexcept;
  /// @brief An allocation has one owner.
  Memory(const Memory&) = delete;
  /// @brief An allocation has one owner.
  Memory& operator=(const Memory&) = delete;

  /// @brief The first byte: device memory on a GPU.
  [[nodiscard]] void* address() const { return address_; }
  /// @brief Copies all of it from the host.
  void write(const void* source);
  /// @brief Copies all of it to the host; on a GPU this waits for the kernels before it.
  void read(void* destination) const;

 private:
  Executor executor_;
  std::size_t bytes_;
  void* address_ = nullptr;
  std::shared_ptr<emulator::BufferRecord> record_;
};

}  // namespace ultra::simt
