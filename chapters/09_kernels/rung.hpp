#pragma once
/// @file
/// A rung with its kernel: the launchers of one computation for every executor.

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "build_config.hpp"
#include "chapters/09_kernels/ladder.hpp"
#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

namespace ultra::ladders {

/// @brief Launches a kernel for a problem: the pointers, sizes and parameters that it takes.
template <typename Problem>
using Launcher = void (*)(const Problem& problem, const simt::Queue& queue);

/// @brief A rung's launcher for each executor; null where it does not run.
template <typename Problem>
struct Launchers {
  /// @brief In the emulator, with every access checked and counted.
  Launcher<Problem> checked = nullptr;
  /// @brief In the emulator, at its best speed.
  Launcher<Problem> fast = nullptr;
  /// @brief On a GPU.
  Launcher<Problem> gpu = nullptr;

  /// @brief The launcher of an executor; null where the rung does not run.
  [[nodiscard]] Launcher<Problem> on(simt::Executor executor) const {
    switch (executor) {
      case simt::Executor::kChecked:
        return checked;
      case simt::Executor::kFast:
        return fast;
      case simt::Executor::kGpu:
        break;
    }
    return gpu;
  }
};

/// @brief Why a rung cannot do a problem of these sizes; empty when it can.
using Refusal = std::string (*)(const Sizes& sizes);

/// @brief What holds a row on the chip, for refuse_long_rows().
struct RowHolder {
  /// @brief What follows the row's length: " columns", or nothing.
  const char* unit;
  /// @brief What the row does not fit: "shared memory".
  const char* name;
  /// @brief What to do instead.
  const char* hint;
};

/// @brief Why a rung that holds whole rows refuses one of `length`; empty when it does not.
[[nodiscard]] std::string refuse_long_rows(int length, int most, const RowHolder& holder);

/// @brief Why a rung refuses this machine's GPU when its compute capability is below major.minor;
/// empty when it is not, or there is none.
/// @param feature  what such a GPU does not have: "products of e4m3".
/// @param hint     what to do instead.
[[nodiscard]] std::string refuse_gpus_before(int major, int minor, const char* feature,
                                             const char* hint = "run an earlier rung");

/// @brief A rung: what it is, and how to launch it.
template <typename Problem>
struct Rung {
  /// @brief What it is.
  RungInfo info;
  /// @brief How to launch it.
  Launchers<Problem> launchers;
  /// @brief Null: it can do any sizes.
  Refusal refusal = nullptr;
};

/// @brief The launchers of a rung that runs on every executor. `launch` has no captures:
/// `everywhere<Problem>([]<simt::Executor executor>(const auto&... a) { naive<executor>(a...); })`.
template <typename Problem, typename Launch>
Launchers<Problem> everywhere(Launch) {
  Launchers<Problem> launchers{
      .checked =
          [](const Problem& problem, const simt::Queue& queue) {
            Launch{}.template operator()<simt::Executor::kChecked>(problem, queue);
          },
      .fast =
          [](const Problem& problem, const simt::Queue& queue) {
            Launch{}.template operator()<simt::Executor::kFast>(problem, queue);
          }};
  if constexpr (build::kHasCuda) {
    launchers.gpu = [](const Problem& problem, const simt::Queue& queue) {
      Launch{}.template operator()<simt::Executor::kGpu>(problem, queue);
    };
  }
  return launchers;
}

/// @brief A ladder's rungs, numbered from 1 as they are added. `launch` is as for everywhere().
template <typename Problem>
class RungTable {
 public:
  /// @param ladder  its folder in kernels/ladders/.
  explicit RungTable(std::string ladder) : ladder_(std::move(ladder)) {}

  /// @brief A rung that runs on every executor; its file is LADDER/NUMBER_NAME.cu.
  template <typename Launch>
  RungTable& add(const char* name, const char* idea, Launch launch) {
    return add(name, idea, nullptr, launch);
  }

  /// @brief One that refuses some sizes.
  template <typename Launch>
  RungTable& add(const char* name, const char* idea, Refusal refusal, Launch launch) {
    return push({.number = next(), .name = name, .idea = idea, .file = file_in(ladder_, name)},
                refusal, everywhere<Problem>(launch));
  }

  /// @brief A rung that an exercise asks for ("09.1"); its file is in solutions/09_kernels/.
  template <typename Launch>
  RungTable& add_exercise(const char* exercise, const char* file, const char* name,
                          const char* idea, Launch launch) {
    return add_exercise(exercise, file, name, idea, nullptr, launch);
  }

  /// @brief One that refuses some sizes.
  template <typename Launch>
  RungTable& add_exercise(const char* exercise, const char* file, const char* name,
                          const char* idea, Refusal refusal, Launch launch) {
    return push({.number = next(),
                 .name = name,
                 .idea = idea,
                 .file = fmt::format("solutions/09_kernels/{}", file),
                 .exercise = exercise},
                refusal, everywhere<Problem>(launch));
  }

  /// @brief A rung for Hopper alone among GPUs; its file is LADDER/hopper/NUMBER_NAME.cu.
  template <typename Launch>
  RungTable& add_hopper(const char* name, const char* idea, Refusal refusal, Launch launch) {
    return push({.number = next(),
                 .name = name,
                 .idea = idea,
                 .file = file_in(ladder_ + "/hopper", name),
                 .needs = Needs::kHopper},
                refusal, everywhere<Problem>(launch));
  }

  /// @brief All that were added.
  [[nodiscard]] const std::vector<Rung<Problem>>& rungs() const { return rungs_; }

 private:
  RungTable& push(RungInfo info, Refusal refusal, const Launchers<Problem>& launchers) {
    rungs_.push_back({.info = std::move(info), .launchers = launchers, .refusal = refusal});
    return *this;
  }
  [[nodiscard]] int next() const { return static_cast<int>(rungs_.size()) + 1; }
  [[nodiscard]] std::string file_in(const std::string& folder, const char* name) const {
    return fmt::format("kernels/ladders/{}/{:02}_{}.cu", folder, next(), name);
  }

  std::string ladder_;
  std::vector<Rung<Problem>> rungs_;
};

}  // namespace ultra::ladders
