#pragma once
/// @file
/// The __shared__ variables of the program: which one an address lies in. They are thread-local
/// variables, and the executable's own symbol table has their names and extents.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

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

/// @brief The thread-local variables of one thread of the operating system.
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

}  // namespace ultra::simt::emulator
