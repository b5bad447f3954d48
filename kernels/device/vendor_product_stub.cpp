// The vendor's products of a build without CUDA or without cuBLAS's headers: there are none.

#include "kernels/device/vendor_product.hpp"
#include "kernels/simt/error.hpp"

namespace ultra::kernels {

std::string why_no_vendor_product() {
  return "this build has no cuBLASLt: cublasLt.h was not found at configuration. Hint: install the "
         "CUDA toolkit with cuBLAS, then rm -rf the build folder";
}

void vendor_product(const VendorProduct&, const simt::Queue&) {
  throw simt::SimtError(simt::Fault::kCuda, why_no_vendor_product());
}

}  // namespace ultra::kernels
