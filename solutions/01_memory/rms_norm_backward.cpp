#include "chapters/01_memory/rms_norm_backward.hpp"

namespace ultra::memory {

// [region row]
template <FloatingScalar T>
void rms_norm_backward_row(std::span<const T> d_y, std::span<const T> x, std::span<const T> weight,
                           T reciprocal_rms, std::span<T> d_x, std::span<T> d_weight) {
  const T r = reciprocal_rms;
  T dot = 0;  // of the gradient of x_hat with x_hat: how far this row's scale wants to move
  for (std::size_t i = 0; i < x.size(); ++i) {
    dot += weight[i] * d_y[i] * (x[i] * r);
    d_weight[i] += d_y[i] * (x[i] * r);
  }
  const T mean = dot / static_cast<T>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    d_x[i] = r * (weight[i] * d_y[i] - (x[i] * r) * mean);
  }
}
// [/region]

template void rms_norm_backward_row<float>(std::span<const float>, std::span<const float>,
                                           std::span<const float>, float, std::span<float>,
                                           std::span<float>);
template void rms_norm_backward_row<double>(std::span<const double>, std::span<const double>,
                                            std::span<const double>, double, std::span<double>,
                                            std::span<double>);

}  // namespace ultra::memory
