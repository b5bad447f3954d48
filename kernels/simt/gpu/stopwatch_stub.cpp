// The clock of a build without CUDA: there is none.

#include "kernels/simt/error.hpp"
#include "kernels/simt/gpu/stopwatch.hpp"

namespace ultra::simt::gpu {

struct Stopwatch::Events {};

Stopwatch::Stopwatch() {
  throw SimtError(Fault::kCuda,
                  "a time on the GPU: this build has no CUDA, expected nvcc at configuration. "
                  "Hint: run the kernel in the emulator, or install the CUDA toolkit");
}

Stopwatch::~Stopwatch() = default;
void Stopwatch::flush_cache() {}
void Stopwatch::start() {}
double Stopwatch::stop() { return 0.0; }

}  // namespace ultra::simt::gpu
