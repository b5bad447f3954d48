#include "chapters/09_kernels/ladder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "common/base/errors.hpp"
#include "kernels/simt/gpu/stopwatch.hpp"

namespace ultra::ladders {
namespace {

double seconds_of(simt::gpu::Stopwatch& stopwatch, const std::function<void()>& launch) {
  stopwatch.flush_cache();
  stopwatch.start();
  launch();
  return stopwatch.stop();
}

// A GPU that has waited runs at a low clock, and takes a while to raise it.
void warm_up(simt::gpu::Stopwatch& stopwatch, const std::function<void()>& launch) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kWhile{200};
  const Clock::time_point begin = Clock::now();
  do {
    static_cast<void>(seconds_of(stopwatch, launch));
  } while (Clock::now() - begin < kWhile);
}

}  // namespace

std::size_t element_count(const Sizes& extents) {
  std::size_t count = 1;
  for (const int extent : extents) {
    count *= static_cast<std::size_t>(extent);
  }
  return count;
}

const RungInfo& Ladder::rung(int number) const {
  const std::span<const RungInfo> all = rungs();
  if (number < 1 || number > static_cast<int>(all.size())) {
    throw ConfigError(fmt::format("{} has no rung {}, expected 1 to {}. Hint: --list shows them",
                                  info().name, number, all.size()));
  }
  return all[static_cast<std::size_t>(number - 1)];
}

Sizes Ladder::default_sizes(simt::Executor executor) const {
  Sizes sizes;
  for (const Dimension& dimension : info().dimensions) {
    sizes.push_back(executor == simt::Executor::kGpu ? dimension.gpu : dimension.emulated);
  }
  return sizes;
}

void Ladder::check_sizes(const Sizes& sizes) const {
  const std::vector<Dimension>& dimensions = info().dimensions;
  const bool are_positive = std::ranges::all_of(sizes, [](int size) { return size > 0; });
  if (sizes.size() != dimensions.size() || !are_positive) {
    std::vector<std::string> names;
    for (const Dimension& dimension : dimensions) {
      names.push_back(dimension.name);
    }
    throw ConfigError(fmt::format("the sizes of {} are {}, expected {} positive numbers: {}",
                                  info().name, fmt::join(sizes, "x"), names.size(),
                                  fmt::join(names, "x")));
  }
}

void time_on_gpu(const RunRequest& request, const std::function<void()>& launch, Outcome& outcome) {
  constexpr int kFewest = 3;
  constexpr double kMostSeconds = 2.0;
  simt::gpu::Stopwatch stopwatch;
  warm_up(stopwatch, launch);
  double total = 0.0;
  for (int i = 0; i < request.repetitions && (i < kFewest || total < kMostSeconds); ++i) {
    if (request.beside) {
      outcome.beside_seconds.push_back(seconds_of(stopwatch, request.beside));
    }
    outcome.seconds.push_back(seconds_of(stopwatch, launch));
    total += outcome.seconds.back();
  }
}

}  // namespace ultra::ladders
