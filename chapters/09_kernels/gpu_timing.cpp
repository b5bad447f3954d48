#include "chapters/09_kernels/gpu_timing.hpp"

#include "kernels/simt/gpu/stopwatch.hpp"

namespace ultra::ladders {

std::vector<double> time_on_gpu(int repetitions, const std::function<void()>& launch) {
  simt::gpu::Stopwatch stopwatch;
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) {
    stopwatch.flush_cache();
    stopwatch.start();
    launch();
    seconds.push_back(stopwatch.stop());
  }
  return seconds;
}

}  // namespace ultra::ladders
