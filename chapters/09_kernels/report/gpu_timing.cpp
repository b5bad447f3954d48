#include "chapters/09_kernels/report/gpu_timing.hpp"

#include "kernels/simt/gpu/stopwatch.hpp"

namespace ultra::ladders {
namespace {

double seconds_of(simt::gpu::Stopwatch& stopwatch, const std::function<void()>& launch) {
  stopwatch.flush_cache();
  stopwatch.start();
  launch();
  return stopwatch.stop();
}

}  // namespace

void time_on_gpu(const RunRequest& request, const std::function<void()>& launch, Outcome& outcome) {
  simt::gpu::Stopwatch stopwatch;
  for (int i = 0; i < request.repetitions; ++i) {
    if (request.beside) {
      outcome.beside_seconds.push_back(seconds_of(stopwatch, request.beside));
    }
    outcome.seconds.push_back(seconds_of(stopwatch, launch));
  }
}

}  // namespace ultra::ladders
