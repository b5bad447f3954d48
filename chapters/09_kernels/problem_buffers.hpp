#pragma once
/// @file
/// The memory that one problem's pointers lead to, on any executor.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/simt/executor.hpp"
#include "kernels/simt/memory.hpp"

namespace ultra::ladders {

/// @brief The buffers of one problem, under names that messages use.
class ProblemBuffers {
 public:
  /// @brief None yet.
  explicit ProblemBuffers(simt::Executor executor) : executor_(executor) {}

  /// @brief Where they are.
  [[nodiscard]] simt::Executor executor() const { return executor_; }

  /// @brief A buffer that holds a copy of the host's values.
  template <typename T>
  T* input(const char* name, const std::vector<T>& values) {
    T* const data = scratch<T>(name, values.size());
    buffers_.back().memory.write(values.data());
    return data;
  }

  /// @brief A buffer that holds NaN, so that what a rung does not write is wrong.
  template <typename T = float>
  T* output(const char* name, std::size_t size) {
    return input(name, std::vector<T>(size, T(std::numeric_limits<float>::quiet_NaN())));
  }

  /// @brief A buffer that nobody has written: the emulator reports a read of it.
  template <typename T = float>
  T* scratch(const char* name, std::size_t size) {
    buffers_.push_back(
        {.memory = simt::Memory(executor_, name, size * sizeof(T), sizeof(T)), .size = size});
    return static_cast<T*>(buffers_.back().memory.address());
  }

  /// @brief All elements of the buffer that begins at `data`, copied to the host.
  /// @throws std::invalid_argument when none does.
  template <typename T>
  [[nodiscard]] std::vector<std::remove_const_t<T>> download(T* data) const {
    const auto found = std::ranges::find_if(
        buffers_, [&](const Buffer& buffer) { return buffer.memory.address() == data; });
    if (found == buffers_.end()) {
      throw std::invalid_argument("no buffer of the problem begins here");
    }
    std::vector<std::remove_const_t<T>> values(found->size);
    found->memory.read(values.data());
    return values;
  }

 private:
  struct Buffer {
    simt::Memory memory;
    std::size_t size;  // in elements
  };

  simt::Executor executor_;
  std::vector<Buffer> buffers_;
};

}  // namespace ultra::ladders
