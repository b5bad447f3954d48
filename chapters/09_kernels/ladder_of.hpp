#pragma once
/// @file
/// A Ladder made of a computation: what it reads, writes and expects, and its rungs.

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chapters/09_kernels/ladder.hpp"
#include "chapters/09_kernels/report/gpu_timing.hpp"
#include "chapters/09_kernels/report/verdict.hpp"
#include "chapters/09_kernels/rung.hpp"
#include "common/base/errors.hpp"

namespace ultra::ladders {

/// @brief A computation that rungs do. An object of it is one problem: its sizes, and its inputs on the
/// host, drawn from a seed.
///
/// Requires:
///  - `Problem`, what the rungs' launchers take, and `Buffers<side>`: a problem's memory on one side,
///    made from the object, with inputs uploaded and outputs poisoned; its problem() gives the Problem;
///  - `describe()`, `rungs()` and `cost(sizes)`, static;
///  - `judge(buffers)`, which compares what a rung has written with an f64 computation.
template <typename T>
concept Computation = std::constructible_from<T, const Sizes&, std::uint64_t> &&
    requires(const T& work, typename T::template Buffers<simt::Side::kBare>& buffers) {
  { T::describe() } -> std::same_as<LadderInfo>;
  { T::rungs() } -> std::same_as<std::vector<Rung<typename T::Problem>>>;
  { T::cost(Sizes{}) } -> std::same_as<Cost>;
  { buffers.problem() } -> std::same_as<typename T::Problem>;
  { work.judge(buffers) } -> std::same_as<Verdict>;
};

/// @brief The ladder of a computation.
template <Computation Work>
class LadderOf final : public Ladder {
 public:
  LadderOf() {
    for (const Rung<Problem>& rung : table_) {
      rungs_.push_back(rung.info);
    }
  }

  const LadderInfo& info() const override { return info_; }
  std::span<const RungInfo> rungs() const override { return rungs_; }
  Cost cost(const Sizes& sizes) const override {
    check_sizes(sizes);
    return Work::cost(sizes);
  }

  std::string refusal(int rung_number, const Sizes& sizes, simt::Side side) const override {
    check_sizes(sizes);
    const Rung<Problem>& entry = entry_of(rung_number);
    if (entry.launchers.on(side) == nullptr) {
      return side == simt::Side::kGpu ? "this build has no CUDA"
                                      : "it uses instructions that the emulator does not have";
    }
    return entry.refusal == nullptr ? std::string() : entry.refusal(sizes);
  }

  Outcome run(int rung_number, const RunRequest& request) const override {
    const std::string why_not = refusal(rung_number, request.sizes, request.side);
    if (!why_not.empty()) {
      throw ConfigError(fmt::format("{} {} cannot run: {}", info_.name,
                                    entry_of(rung_number).info.name, why_not));
    }
    const Launcher<Problem> launcher = entry_of(rung_number).launchers.on(request.side);
    switch (request.side) {
      case simt::Side::kInstrumented:
        return run_on<simt::Side::kInstrumented>(launcher, request);
      case simt::Side::kBare:
        return run_on<simt::Side::kBare>(launcher, request);
      case simt::Side::kGpu:
        break;
    }
    return run_on<simt::Side::kGpu>(launcher, request);
  }

 private:
  using Problem = typename Work::Problem;

  const Rung<Problem>& entry_of(int number) const {
    return table_.at(static_cast<std::size_t>(rung(number).number - 1));
  }

  template <simt::Side side>
  static Outcome run_on(Launcher<Problem> launcher, const RunRequest& request) {
    const Work work(request.sizes, request.seed);
    typename Work::template Buffers<side> buffers(work);
    const Problem problem = buffers.problem();
    Outcome outcome;
    launcher(problem, {.report = &outcome.report});
    outcome.verdict = work.judge(buffers);
    if (side == simt::Side::kGpu && request.repetitions > 0) {
      time_on_gpu(
          request, [&] { launcher(problem, {}); }, outcome);
    }
    return outcome;
  }

  LadderInfo info_ = Work::describe();
  std::vector<Rung<Problem>> table_ = Work::rungs();
  std::vector<RungInfo> rungs_;
};

}  // namespace ultra::ladders
