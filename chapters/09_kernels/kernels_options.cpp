#include "chapters/09_kernels/kernels_options.hpp"

#include <fmt/format.h>

#include "build_config.hpp"
#include "chapters/09_kernels/report/ladder_table.hpp"
#include "common/base/errors.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::ladders {
namespace {

constexpr std::size_t kMostRepetitions = 100'000;

}  // namespace

void KernelsOptions::add_to(CLI::App& app) {
  const train::Flags what(app, "What to run");
  what.add_switch("--list", list, "list the ladders and their rungs, and run nothing");
  what.add("--kernel", kernel, "a ladder, or one rung of it: LADDER/NUMBER or LADDER/NAME");
  what.add(
      "--size", size,
      "the problem: 128 for every extent, or one number each, 128x96x64; else the ladder's own");
  what.add("--seed", seed, "of the random inputs");
  const train::Flags where(app, "Where");
  where.add_switch("--emulate", emulate, "in the emulator; the default without a GPU");
  where.add_switch("--gpu", gpu, "on a GPU, with times; the default where there is one");
  where.add("--repetitions", repetitions, "timed runs of each rung on a GPU; 0: only check it",
            {0, kMostRepetitions});
  const train::Flags output(app, "What to show");
  output.add_switch(
      "--counters", counters,
      "what the emulator counts in each source line, and Nsight Compute's names for it");
  output.add("--metrics", metrics, "write a line of JSON per rung to this file");
}

void KernelsOptions::validate() const {
  if (emulate && gpu) {
    throw ConfigError("--emulate and --gpu contradict each other. Hint: give one of them");
  }
  if (counters && gpu) {
    throw ConfigError(fmt::format(
        "--counters counts in the emulator, not on a GPU (--gpu). Hint: leave --gpu out; on a GPU, "
        "Nsight Compute measures the same: {}",
        ncu_command(kernel, size)));
  }
}

simt::Executor KernelsOptions::executor(bool has_gpu) const {
  if (gpu && !has_gpu) {
    throw ConfigError(
        build::kHasCuda
            ? "--gpu: this machine has no GPU that CUDA can use. Hint: does nvidia-smi list one in "
              "this shell? Without one, leave --gpu out: the emulator runs the same kernels"
            : "--gpu: this build has no CUDA. Hint: install the CUDA toolkit (nvcc), then rm -rf "
              "the build folder; or leave --gpu out: the emulator runs the same kernels");
  }
  const bool on_gpu = gpu || (has_gpu && !emulate && !counters);
  return on_gpu ? simt::Executor::kGpu : simt::Executor::kChecked;
}

KernelsRequest KernelsOptions::request(std::span<const std::unique_ptr<Ladder>> ladders,
                                       bool has_gpu) const {
  validate();
  KernelsRequest request{.selection = select(kernel, ladders), .run = {}};
  const Ladder& ladder = *request.selection.ladder;
  request.run.seed = seed;
  request.run.executor = executor(has_gpu);
  request.run.sizes =
      size.empty() ? ladder.default_sizes(request.run.executor) : parse_sizes(size, ladder.info());
  if (request.run.executor == simt::Executor::kGpu) {
    request.run.repetitions = static_cast<int>(repetitions);
  } else {
    expect_emulable(request.selection, request.run.sizes);
  }
  return request;
}

}  // namespace ultra::ladders
