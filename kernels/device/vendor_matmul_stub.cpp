// The vendor's product of a build without CUDA or without cuBLAS's headers: there is none.

#include "kernels/device/vendor_matmul.hpp"
#include "kernels/simt/error.hpp"

namespace ultra::kernels {

struct VendorMatmul::State {};

std::string VendorMatmul::why_missing() {
  return "this build has no cuBLAS: cublas_api.h was not found at configuration. Hint: install the "
         "CUDA toolkit with cuBLAS, then rm -rf the build folder";
}

VendorMatmul::VendorMatmul(int, int, int, VendorAccuracy) {
  throw simt::SimtError(simt::Fault::kCuda, why_missing());
}

VendorMatmul::~VendorMatmul() = default;
void VendorMatmul::launch() {}
const char* VendorMatmul::way() const { return ""; }

}  // namespace ultra::kernels
