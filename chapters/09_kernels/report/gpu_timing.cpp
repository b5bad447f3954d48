#include "chapters/09_kernels/report/gpu_timing.hpp"

#include <chrono>

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
