#pragma once
/// @file
/// Shared memory of the running block: its dynamic part and its __shared__ variables, with what
/// happened to each byte.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/simt/emulator/memory/shadow.hpp"

namespace ultra::simt::emulator {

/// @brief A thread-local variable of this thread.
struct StaticVariable {
  /// @brief Its name with its function's, readable.
  std::string name;
  /// @brief Its name as the linker sees it, which begins with its function's.
  std::string symbol;
  /// @brief Address of its first byte.
  std::uintptr_t begin = 0;
  /// @brief Its extent in bytes.
  std::size_t bytes = 0;
};

/// @brief The thread-local variables of one thread of the operating system, by the symbol table of the
/// executable, which has their names and extents: the __shared__ variables of kernels are among them.
class StaticVariables {
 public:
  /// @brief The variable that holds an address, or null. The first call reads the symbol tables.
  /// Variables of other kernels than the one whose code is at `kernel` do not count, so that an index
  /// that leaves an array does not land in a neighbour: kernels are the functions whose names end in
  /// `_kernel`.
  /// @throws SimtError (Fault::kLaunch) where the executable has no table: it was stripped.
  [[nodiscard]] const StaticVariable* find(std::uintptr_t address, std::uintptr_t kernel);

 private:
  [[nodiscard]] bool belongs(const StaticVariable& variable, std::uintptr_t kernel) const;

  bool is_read_ = false;
  std::vector<StaticVariable> variables_;  // in the order of their addresses
  std::map<std::uintptr_t, std::string> kernels_;
};

/// @brief One array of shared memory.
struct SharedArray {
  /// @brief Its name, for messages.
  std::string name;
  /// @brief Address of its first byte.
  std::uintptr_t begin = 0;
  /// @brief Its extent in bytes.
  std::size_t bytes = 0;
  /// @brief What happened to its bytes.
  Shadow shadow;

  /// @brief Whether an address lies inside.
  [[nodiscard]] bool contains(std::uintptr_t address) const {
    return address >= begin && address - begin < bytes;
  }
};

/// @brief The shared memory that the blocks of one thread of the operating system use in turn.
class SharedMemory {
 public:
  /// @brief Gets ready for blocks of the kernel at this address, with so much dynamic shared memory.
  void start_launch(std::size_t dynamic_bytes, std::uintptr_t kernel);
  /// @brief Poisons what an earlier block may have left: a value read by mistake is NaN. A __shared__
  /// variable is known from its first checked access on.
  void start_block();
  /// @brief Dynamic shared memory.
  [[nodiscard]] std::byte* dynamic() const { return dynamic_; }
  /// @brief The dynamic part as an array.
  [[nodiscard]] SharedArray& dynamic_array() { return arrays_.front(); }
  /// @brief The array that holds an address, or null.
  [[nodiscard]] SharedArray* find(std::uintptr_t address);
  /// @brief The array that ends closest before an address, of those used so far, or null.
  [[nodiscard]] const SharedArray* last_before(std::uintptr_t address) const;

 private:
  std::unique_ptr<std::byte[]> storage_;
  std::byte* dynamic_ = nullptr;
  std::uintptr_t kernel_ = 0;
  StaticVariables variables_;
  std::deque<SharedArray> arrays_;  // the dynamic part first
  SharedArray* recent_ = nullptr;
};

}  // namespace ultra::simt::emulator
