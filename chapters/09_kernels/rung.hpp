#pragma once
/// @file
/// A rung with its kernel: the launchers of one computation for every side.

#include <string>

#include "build_config.hpp"
#include "chapters/09_kernels/ladder.hpp"
#include "kernels/simt/config.hpp"
#include "kernels/simt/side.hpp"

namespace ultra::ladders {

/// @brief Launches a kernel for a problem: the pointers, sizes and parameters that it takes.
template <typename Problem>
using Launcher = void (*)(const Problem& problem, const simt::Queue& queue);

/// @brief A rung's launcher for each side; null where it does not run.
template <typename Problem>
struct Launchers {
  /// @brief In the emulator, with every access counted.
  Launcher<Problem> instrumented = nullptr;
  /// @brief In the emulator, at its best speed.
  Launcher<Problem> bare = nullptr;
  /// @brief On a GPU.
  Launcher<Problem> gpu = nullptr;

  /// @brief The launcher of a side; null where the rung does not run.
  [[nodiscard]] Launcher<Problem> on(simt::Side side) const {
    switch (side) {
      case simt::Side::kInstrumented:
        return instrumented;
      case simt::Side::kBare:
        return bare;
      case simt::Side::kGpu:
        break;
    }
    return gpu;
  }
};

/// @brief A rung: what it is, and how to launch it.
template <typename Problem>
struct Rung {
  /// @brief What it is.
  RungInfo info;
  /// @brief How to launch it.
  Launchers<Problem> launchers;
  /// @brief Why it cannot do a problem of these sizes; empty when it can. Null: it can do any.
  std::string (*refusal)(const Sizes& sizes) = nullptr;
};

/// @brief The launchers of a rung that runs on every side. `launch` is a lambda without captures:
/// `everywhere<Problem>([]<simt::Side side>(const auto&... a) { naive<side>(a...); })`.
template <typename Problem, typename Launch>
Launchers<Problem> everywhere(Launch) {
  Launchers<Problem> launchers{
      .instrumented =
          [](const Problem& problem, const simt::Queue& queue) {
            Launch{}.template operator()<simt::Side::kInstrumented>(problem, queue);
          },
      .bare =
          [](const Problem& problem, const simt::Queue& queue) {
            Launch{}.template operator()<simt::Side::kBare>(problem, queue);
          }};
  if constexpr (build::kHasCuda) {
    launchers.gpu = [](const Problem& problem, const simt::Queue& queue) {
      Launch{}.template operator()<simt::Side::kGpu>(problem, queue);
    };
  }
  return launchers;
}

/// @brief The launchers of a rung that only a GPU can run; `launch` as for everywhere().
template <typename Problem, typename Launch>
Launchers<Problem> on_gpu(Launch) {
  Launchers<Problem> launchers;
  if constexpr (build::kHasCuda) {
    launchers.gpu = [](const Problem& problem, const simt::Queue& queue) {
      Launch{}.template operator()<simt::Side::kGpu>(problem, queue);
    };
  }
  return launchers;
}

}  // namespace ultra::ladders
