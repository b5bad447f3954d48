#pragma once
/// @file
/// Who touched which word of a block's shared memory, where threads and engines are ordered by
/// barriers that count: two at one word of which one writes, and the later one does not know of the
/// earlier, is a race. The plain shadow (shadow.hpp) knows __syncthreads() and __syncwarp() alone.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/simt/emulator/async/clock.hpp"
#include "kernels/simt/emulator/hooks.hpp"

namespace ultra::simt::emulator {

/// @brief Who accesses shared memory.
enum class Actor : std::uint8_t {
  /// @brief A thread, with its own loads and stores.
  kThread,
  /// @brief TMA, on a thread's behalf.
  kCopyEngine,
  /// @brief The tensor cores, on a warp's behalf.
  kTensorCores,
};

/// @brief One access, or one box or tile of them.
struct LoggedAccess {
  /// @brief When.
  Event event;
  /// @brief Who.
  Actor actor = Actor::kThread;
  /// @brief What.
  Operation operation = Operation::kLoad;
  /// @brief The thread, among those that run together.
  std::size_t thread = 0;
  /// @brief Its line.
  SourceLine place{};
};

/// @brief Two accesses that nothing orders.
struct Disorder {
  /// @brief The earlier one here.
  LoggedAccess earlier;
  /// @brief First byte of the word.
  std::size_t offset;
  /// @brief Whether they are ordered, and only the fence between threads and engines is missing.
  bool lacks_fence;
};

/// @brief The log of one block's dynamic shared memory.
class AccessLog {
 public:
  /// @brief Forgets everything.
  void start(std::size_t bytes);
  /// @brief Opens an entry for the touch()es of one access.
  void open(const LoggedAccess& access);
  /// @brief Notes that the open access touches these bytes; `known` is what its warp knows.
  /// Accesses of less than a word are ordered among themselves only with those of other sizes.
  /// @return the earlier access that it is not ordered with, if any.
  std::optional<Disorder> touch(std::size_t offset, std::size_t size, const Clock& known,
                                const Order& order);

 private:
  using Number = std::uint32_t;  // of an entry; 0 for none
  struct Word {
    Number writer = 0;
    bool is_part = false;  // its writer wrote less than the word
    std::vector<Number> readers;
  };

  [[nodiscard]] std::optional<Disorder> meet(Number earlier, std::size_t offset, const Clock& known,
                                             const Order& order) const;
  void note_read(Word& word) const;

  std::vector<LoggedAccess> entries_;
  std::vector<Word> words_;
};

}  // namespace ultra::simt::emulator
