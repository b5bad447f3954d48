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
#include "chapters/09_kernels/problem_buffers.hpp"
#include "chapters/09_kernels/report/verdict.hpp"
#include "chapters/09_kernels/rung.hpp"
#include "common/base/errors.hpp"

namespace ultra::ladders {

/// @brief A computation that rungs do. An object of it is one problem: its sizes, and its inputs on
/// the host, drawn from a seed.
///
/// Requires:
///  - `Problem`, what the rungs' launchers take, and `problem(buffers)`, which makes it: inputs
///    uploaded, outputs poisoned;
///  - `describe()`, `rungs()` and `cost(sizes)`, static; cost() may have a seed for what depends on
///    it;
///  - `judge(problem, buffers)`, which compares what a rung has written with an f64 computation.
template <typename T>
concept Computation = std::constructible_from<T, const Sizes&, std::uint64_t> &&
    requires(T& work, ProblemBuffers& buffers, const typename T::Problem& problem) {
  { T::describe() } -> std::same_as<LadderInfo>;
  { T::rungs() } -> std::same_as<std::vector<Rung<typename T::Problem>>>;
  requires requires {
    { T::cost(Sizes{}) } -> std::same_as<Cost>;
  } || requires {
    { T::cost(Sizes{}, std::uint64_t{}) } -> std::same_as<Cost>;
  };
  { work.problem(buffers) } -> std::same_as<typename T::Problem>;
  { work.judge(problem, buffers) } -> std::same_as<Verdict>;
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
  using Ladder::cost;
  Cost cost(const Sizes& sizes, std::uint64_t seed) const override {
    check_sizes(sizes);
    if constexpr (requires { Work::cost(sizes, seed); }) {
      return Work::cost(sizes, seed);
    } else {
      return Work::cost(sizes);
    }
  }

  std::string refusal(int rung_number, const Sizes& sizes, simt::Executor executor) const override {
    check_sizes(sizes);
    const Rung<Problem>& entry = entry_of(rung_number);
    if (entry.launchers.on(executor) == nullptr) {
      return "this build has no CUDA";
    }
    if (executor == simt::Executor::kGpu) {
      std::string why_not =
          refuse_gpus_before(8, 0, "the kernels of ladders", "run them without --gpu, emulated");
      if (!why_not.empty()) return why_not;
    }
    return entry.refusal == nullptr ? std::string() : entry.refusal(sizes);
  }

  Outcome run(int rung_number, const RunRequest& request) const override {
    const std::string why_not = refusal(rung_number, request.sizes, request.executor);
    if (!why_not.empty()) {
      throw ConfigError(fmt::format("{} {} cannot run: {}", info_.name,
                                    entry_of(rung_number).info.name, why_not));
    }
    const Launcher<Problem> launcher = entry_of(rung_number).launchers.on(request.executor);
    Work work(request.sizes, request.seed);
    ProblemBuffers buffers(request.executor);
    const Problem problem = work.problem(buffers);
    Outcome outcome;
    launcher(problem, {.report = &outcome.report});
    outcome.verdict = work.judge(problem, buffers);
    if (request.executor == simt::Executor::kGpu && request.repetitions > 0) {
      time_on_gpu(
          request, [&] { launcher(problem, {}); }, outcome);
    }
    return outcome;
  }

 private:
  using Problem = typename Work::Problem;

  const Rung<Problem>& entry_of(int number) const {
    return table_.at(static_cast<std::size_t>(rung(number).number - 1));
  }

  LadderInfo info_ = Work::describe();
  std::vector<Rung<Problem>> table_ = Work::rungs();
  std::vector<RungInfo> rungs_;
};

}  // namespace ultra::ladders
