// Device memory of a build without CUDA: there is none.

#include "kernels/simt/error.hpp"
#include "kernels/simt/gpu/device_memory.hpp"

namespace ultra::simt::gpu {
namespace {

[[noreturn]] void refuse() {
  throw SimtError(Fault::kCuda,
                  "a buffer on the GPU: this build has no CUDA, expected nvcc at configuration. "
                  "Hint: run the kernel in the emulator, or install the CUDA toolkit");
}

}  // namespace

void* allocate(std::size_t) { refuse(); }
void release(void*) noexcept {}
void copy_to_device(void*, const void*, std::size_t) { refuse(); }
void copy_to_host(void*, const void*, std::size_t) { refuse(); }

}  // namespace ultra::simt::gpu
