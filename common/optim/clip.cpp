#include "common/optim/clip.hpp"

#include <cmath>

#include "common/ops/elementwise.hpp"

namespace ultra::optim {

double global_norm(std::span<const Tensor> tensors) {
  double squares = 0;
  for (const Tensor& tensor : tensors) squares += ops::sum_of_squares(tensor);
  return std::sqrt(squares);
}

double clip_coefficient(double norm, double max_norm) {
  return max_norm > 0.0 && norm > max_norm ? max_norm / norm : 1.0;
}

}  // namespace ultra::optim
