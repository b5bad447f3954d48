#pragma once
/// @file
/// A ladder: one computation and the kernels that do it, each a rung with one more idea.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "chapters/09_kernels/report/verdict.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/report.hpp"

/// @brief Chapter 09: kernels from naive to the limit, on a GPU and in the emulator.
namespace ultra::ladders {

/// @brief The extents of a problem, one per Dimension of its ladder.
using Sizes = std::vector<int>;

/// @brief How many elements an array of these extents has.
[[nodiscard]] std::size_t element_count(const Sizes& extents);

/// @brief One extent of a ladder's problems.
struct Dimension {
  /// @brief What it counts: "rows".
  std::string name;
  /// @brief The default in the emulator: small, and ragged where that shows something.
  int emulated;
  /// @brief The default on a GPU: large enough to fill it.
  int gpu;
};

/// @brief What a rung needs in order to run.
enum class Needs {
  /// @brief Any GPU since the A100, or the emulator.
  kAnything,
  /// @brief A GPU of the Hopper generation, or the emulator.
  kHopper,
};

/// @brief What limits a computation on a perfect machine.
enum class Limit {
  /// @brief Bytes to and from global memory.
  kMemory,
  /// @brief Multiply-adds in fp32 on CUDA cores.
  kFp32,
  /// @brief Multiply-adds in bf16 on tensor cores.
  kBf16,
};

/// @brief A rung, without the kernel.
struct RungInfo {
  /// @brief Its number in the ladder, from 1.
  int number;
  /// @brief Its name: the launcher's.
  std::string name;
  /// @brief What it does differently from the rung before, in one line.
  std::string idea;
  /// @brief The kernel file, from the repository's root.
  std::string file;
  /// @brief The exercise that asks for it ("09.1"); empty when none does.
  std::string exercise = {};
  /// @brief Where it runs.
  Needs needs = Needs::kAnything;
};

/// @brief A ladder, without its kernels.
struct LadderInfo {
  /// @brief Its name, the folder in kernels/: "matmul_fp32".
  std::string name;
  /// @brief What it computes, in one line.
  std::string title;
  /// @brief The extents of its problems.
  std::vector<Dimension> dimensions;
  /// @brief What its last rung should be limited by.
  Limit limit;
};

/// @brief The least that a problem costs, whatever the kernel.
struct Cost {
  /// @brief Floating-point operations; a multiply-add is two.
  double operations;
  /// @brief Bytes of the inputs read once and the outputs written once.
  double least_bytes;
  /// @brief Those of the outputs, where memory is the limit.
  double written_bytes = 0.0;
};

/// @brief What to run.
struct RunRequest {
  /// @brief The problem.
  Sizes sizes;
  /// @brief Seed of its random inputs.
  std::uint64_t seed = 1;
  /// @brief Where.
  simt::Executor executor = simt::Executor::kChecked;
  /// @brief On a GPU: how many times the rung is timed, at most, after its first launch, which is
  /// checked, and after others that warm the GPU up.
  int repetitions = 0;
  /// @brief On a GPU: what to launch and time before each repetition of the rung, so that both meet
  /// the same clocks and temperature; null for nothing.
  std::function<void()> beside = {};
};

/// @brief What a run gave.
struct Outcome {
  /// @brief Whether the outputs are right.
  Verdict verdict;
  /// @brief What was counted: launches and, in the checked emulator, sites.
  simt::Report report;
  /// @brief Seconds of each timed repetition; empty in the emulator.
  std::vector<double> seconds;
  /// @brief Seconds of each repetition of RunRequest::beside; empty without it.
  std::vector<double> beside_seconds;
};

/// @brief One computation and its rungs.
class Ladder {
 public:
  Ladder() = default;
  virtual ~Ladder() = default;
  Ladder(const Ladder&) = delete;
  Ladder& operator=(const Ladder&) = delete;

  /// @brief What it computes.
  [[nodiscard]] virtual const LadderInfo& info() const = 0;
  /// @brief Its rungs in order.
  [[nodiscard]] virtual std::span<const RungInfo> rungs() const = 0;
  /// @brief The rung of that number.
  /// @throws ConfigError when there is none; the message lists those there are.
  [[nodiscard]] const RungInfo& rung(int number) const;
  /// @brief The default problem of an executor.
  [[nodiscard]] Sizes default_sizes(simt::Executor executor) const;
  /// @brief Why a rung cannot do these sizes on this executor; empty when it can.
  [[nodiscard]] virtual std::string refusal(int rung, const Sizes& sizes,
                                            simt::Executor executor) const = 0;
  /// @brief The least that a problem costs; the seed decides in ladders whose seeds mean something.
  [[nodiscard]] virtual Cost cost(const Sizes& sizes, std::uint64_t seed) const = 0;
  /// @brief That of the problem of seed 1.
  [[nodiscard]] Cost cost(const Sizes& sizes) const { return cost(sizes, 1); }
  /// @brief Draws inputs, runs a rung once on poisoned outputs, and compares these with an f64
  /// computation on the host: all of them, or a sample where that would take too long.
  /// @throws ConfigError when sizes are missing or not positive, or the rung refuses them.
  /// @throws simt::SimtError when the kernel is wrong.
  [[nodiscard]] virtual Outcome run(int rung, const RunRequest& request) const = 0;

 protected:
  /// @brief Checks that there is one positive size per dimension.
  /// @throws ConfigError
  void check_sizes(const Sizes& sizes) const;
};

/// @brief Times `launch`, and what the request wants launched with it, on the default stream: in
/// turn, as often as the request says, but no more than three times once the rung has taken two
/// seconds; each with an empty second-level cache. Before, the GPU is kept busy for 0.2 seconds, so
/// that its clock has risen.
/// @param outcome  gets the seconds of each, by the GPU's own clock.
/// @throws simt::SimtError (Fault::kCuda) without a GPU, or when a launch failed.
void time_on_gpu(const RunRequest& request, const std::function<void()>& launch, Outcome& outcome);

}  // namespace ultra::ladders
