#include <cmath>

#include "common/ops/backend/cpu/kernels.hpp"

namespace ultra::ops::cpu {

template <class T>
void rms_norm(std::size_t rows, std::size_t hidden, const T* x, const T* weight, T epsilon, T* y,
              T* reciprocal_rms) {
  for (std::size_t row = 0; row < rows; ++row, x += hidden, y += hidden) {
    T squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::size_t i = 0; i < hidden; ++i) squares += x[i] * x[i];
    const T r = T(1) / std::sqrt(squares / static_cast<T>(hidden) + epsilon);
    reciprocal_rms[row] = r;
#pragma omp simd
    for (std::size_t i = 0; i < hidden; ++i) y[i] = x[i] * r * weight[i];
  }
}

template <class T>
void rms_norm_backward(std::size_t rows, std::size_t hidden, const T* d_y, const T* x,
                       const T* weight, const T* reciprocal_rms, T* d_x, T* d_weight) {
  for (std::size_t row = 0; row < rows; ++row, d_y += hidden, x += hidden, d_x += hidden) {
    const T r = reciprocal_rms[row];
    T dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::size_t i = 0; i < hidden; ++i) {
      const T d_scaled = d_y[i] * x[i];
      dot += d_scaled * weight[i];
      d_weight[i] += d_scaled * r;
    }
    const T mean = dot * r * r / static_cast<T>(hidden);
#pragma omp simd
    for (std::size_t i = 0; i < hidden; ++i) d_x[i] = r * (d_y[i] * weight[i] - x[i] * mean);
  }
}

template void rms_norm(std::size_t, std::size_t, const float*, const float*, float, float*, float*);
template void rms_norm(std::size_t, std::size_t, const double*, const double*, double, double*,
                       double*);
template void rms_norm_backward(std::size_t, std::size_t, const float*, const float*, const float*,
                                const float*, float*, float*);
template void rms_norm_backward(std::size_t, std::size_t, const double*, const double*,
                                const double*, const double*, double*, double*);

}  // namespace ultra::ops::cpu
