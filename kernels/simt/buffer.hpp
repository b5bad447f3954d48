#pragma once
/// @file
/// The memory that kernels work on: device memory on a GPU, checked memory in the emulator.

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/simt/executor.hpp"
#include "kernels/simt/memory.hpp"

namespace ultra::simt {

/// @brief `size()` elements of T in global memory, under a name that messages use.
/// Requires: T is trivially copyable.
template <typename T, Executor executor = kExecutor>
requires std::is_trivially_copyable_v<T>
class Buffer {
 public:
  /// @brief Elements that nobody has written: the emulator reports a read of one.
  Buffer(std::string name, std::size_t size)
      : size_(size), memory_(executor, std::move(name), size * sizeof(T), sizeof(T)) {}

  /// @brief A copy of the host's values.
  Buffer(std::string name, std::span<const T> values) : Buffer(std::move(name), values.size()) {
    upload(values);
  }

  /// @brief How many elements.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// @brief What a kernel takes as its argument.
  [[nodiscard]] T* data() { return static_cast<T*>(memory_.address()); }
  /// @brief What a kernel takes as its argument.
  [[nodiscard]] const T* data() const { return static_cast<const T*>(memory_.address()); }

  /// @brief Copies the host's values into all of it.
  /// @throws std::invalid_argument when `values` has another size.
  void upload(std::span<const T> values) {
    if (values.size() != size_) {
      throw std::invalid_argument("upload of " + std::to_string(values.size()) +
                                  " elements into a buffer of " + std::to_string(size_));
    }
    memory_.write(values.data());
  }

  /// @brief All elements, copied to the host; on a GPU this waits for the kernels before it.
  [[nodiscard]] std::vector<T> download() const {
    std::vector<T> values(size_);
    memory_.read(values.data());
    return values;
  }

 private:
  std::size_t size_;
  Memory memory_;
};

}  // namespace ultra::simt
