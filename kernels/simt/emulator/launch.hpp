#pragma once
/// @file
/// launch() of the emulator.

#include <cstdint>
#include <tuple>
#include <utility>

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

namespace ultra::simt::emulator {

/// @brief A kernel with its arguments, for one thread to call.
struct Task {
  /// @brief Calls the kernel.
  void (*call)(const void* arguments);
  /// @brief Address of the kernel's code.
  std::uintptr_t kernel;
  /// @brief The kernel and its arguments.
  const void* arguments;
};

/// @brief Runs every thread of every block, one block after the other, on the calling thread, and adds
/// what was counted, nothing in the fast emulator, to the report of the launch's queue.
/// @throws SimtError, and what the kernel throws.
void run(const Config& config, const Task& task, Executor executor);

}  // namespace ultra::simt::emulator

namespace ultra::simt {

/// @brief Runs a kernel for every thread of the grid; `arguments` become its parameters.
/// @throws SimtError when the launch, or what a thread does, is wrong.
template <Executor executor = kExecutor, typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), const Config& config, Arguments&&... arguments) {
  using Call = std::pair<void (*)(Parameters...), std::tuple<Parameters...>>;
  const Call call(kernel, std::tuple<Parameters...>(std::forward<Arguments>(arguments)...));
  const auto call_kernel = [](const void* data) {
    const auto& [function, values] = *static_cast<const Call*>(data);
    std::apply(function, values);
  };
  emulator::run(
      config,
      {.call = call_kernel, .kernel = reinterpret_cast<std::uintptr_t>(kernel), .arguments = &call},
      executor);
}

}  // namespace ultra::simt
