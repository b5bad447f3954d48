#pragma once
/// @file
/// AsyncFile: reads and writes that go on while the caller computes.
///
/// Serves chapter 04's offloading: moments and weights that do not fit on a device stand in the host's
/// memory or in a file, and travel in large blocks.
/// Source: Rajbhandari et al. 2021, "ZeRO-Infinity", arXiv 2104.07857, section 6.3 (its DeepNVMe).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

/// @brief Storage outside the device's memory, read and written asynchronously.
namespace ultra::storage {

/// @brief When a transfer was really under way.
struct TransferTimes {
  using Clock = std::chrono::steady_clock;  ///< what moments are measured with
  Clock::time_point begin;                  ///< when the storage began to work on it
  Clock::time_point end;                    ///< when its last byte had been moved
  /// @brief Its duration in seconds.
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(end - begin).count();
  }
};

/// @brief A transfer under way, as a kind of AsyncFile knows it.
///
/// The destructor returns when the caller's memory is touched no more.
class PendingTransfer {
 public:
  PendingTransfer() = default;
  PendingTransfer(const PendingTransfer&) = delete;
  PendingTransfer& operator=(const PendingTransfer&) = delete;
  virtual ~PendingTransfer() = default;

  /// @brief Returns when all bytes have been moved. Called once.
  /// @throws FileError with the path, what was tried and the system's reason.
  virtual TransferTimes wait() = 0;
};

/// @brief A handle on a read or a write under way; the last of it, or wait(), lets go of the memory.
class Transfer {
 public:
  /// @brief Of nothing: there is nothing to wait for.
  Transfer() = default;
  /// @brief Of a transfer that has begun.
  explicit Transfer(std::unique_ptr<PendingTransfer> pending);

  /// @brief Whether wait() has not been called yet.
  [[nodiscard]] bool pending() const { return pending_ != nullptr; }

  /// @brief Returns when all bytes have been moved; afterwards there is nothing to wait for.
  /// @throws FileError with the path, what was tried and the system's reason; InternalError when
  /// there is nothing to wait for.
  TransferTimes wait();

 private:
  std::unique_ptr<PendingTransfer> pending_;
};

/// @brief Bytes of a fixed number that outlive the calls, read and written at offsets.
///
/// One thread begins transfers. Transfers may run at the same time and in any order: a read of
/// bytes that are still being written may return anything. The file outlives its transfers.
class AsyncFile {
 public:
  AsyncFile() = default;
  AsyncFile(const AsyncFile&) = delete;
  AsyncFile& operator=(const AsyncFile&) = delete;
  virtual ~AsyncFile() = default;

  /// @brief Begins to fill all of `out` with the bytes from `offset` on.
  /// @param out  must not be touched before the transfer is waited for.
  /// @throws InternalError when the file does not have these bytes.
  [[nodiscard]] virtual Transfer read_async(std::uint64_t offset, std::span<std::byte> out) = 0;

  /// @brief Begins to write all of `bytes` to `offset` and what follows.
  /// @param bytes  must not be changed before the transfer is waited for.
  /// @throws InternalError when the file does not have this place.
  [[nodiscard]] virtual Transfer write_async(std::uint64_t offset,
                                             std::span<const std::byte> bytes) = 0;

  /// @brief Bytes, the same for its whole life; zeros at first.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
};

}  // namespace ultra::storage
