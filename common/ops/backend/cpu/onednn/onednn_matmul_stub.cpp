#include "common/base/errors.hpp"
#include "common/ops/backend/cpu/onednn/onednn_matmul.hpp"

namespace ultra::ops::cpu::onednn {

bool is_available() { return false; }

bool multiplies(const Tensor& /*out*/, const Tensor& /*a*/, Transpose /*transpose_a*/) {
  return false;
}

void matmul(const Tensor& /*out*/, const Tensor& /*a*/, Transpose /*transpose_a*/,
            const Tensor& /*b*/, Transpose /*transpose_b*/, Write /*write*/) {
  throw InternalError("a product by oneDNN, which this build does not have");
}

}  // namespace ultra::ops::cpu::onednn
