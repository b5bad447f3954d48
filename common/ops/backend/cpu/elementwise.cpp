#include <cmath>

#include "common/ops/backend/cpu/kernels.hpp"
#include "common/ops/backend/cpu/vector_math.hpp"

namespace ultra::ops::cpu {

template <class T>
void rope(std::size_t batch, std::size_t heads, std::size_t half,
          std::span<const std::int32_t> positions, const T* cosines, const T* sines, T sign, T* x) {
  for (std::size_t b = 0; b < batch; ++b) {
    for (const std::int32_t position : positions) {
      const T* cosine = cosines + static_cast<std::size_t>(position) * half;
      const T* sine = sines + static_cast<std::size_t>(position) * half;
      for (std::size_t h = 0; h < heads; ++h, x += 2 * half) {
        T* first = x;
        T* second = x + half;
#pragma omp simd
        for (std::size_t i = 0; i < half; ++i) {
          const T a = first[i];
          const T c = second[i];
          first[i] = a * cosine[i] - sign * c * sine[i];
          second[i] = c * cosine[i] + sign * a * sine[i];
        }
      }
    }
  }
}

template <class T>
void swiglu(std::size_t count, const T* gate, const T* up, T* product) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) product[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

template <class T>
void swiglu_backward(std::size_t count, const T* d_product, const T* gate, const T* up, T* d_gate,
                     T* d_up) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const T s = sigmoid(gate[i]);
    const T silu = gate[i] * s;
    d_up[i] = d_product[i] * silu;
    d_gate[i] = d_product[i] * up[i] * (s + silu * (T(1) - s));
  }
}

template <class T>
void add(std::size_t count, const T* a, const T* b, T* out) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

template <class T>
void scale(std::size_t count, T factor, T* a) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) a[i] *= factor;
}

template <class T>
double sum_of_squares(std::size_t count, const T* x) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(x[i]);
    sum += value * value;
  }
  return sum;
}

template <class T>
void adamw(std::size_t count, const AdamWStep& c, T* value, const T* grad, T* first_moment,
           T* second_moment) {
  const double correction1 = 1.0 - std::pow(c.beta1, c.step);
  const double correction2 = 1.0 - std::pow(c.beta2, c.step);
  const T beta1 = static_cast<T>(c.beta1);
  const T beta2 = static_cast<T>(c.beta2);
  const T keep1 = static_cast<T>(1.0 - c.beta1);
  const T keep2 = static_cast<T>(1.0 - c.beta2);
  const T scale = static_cast<T>(c.gradient_scale);
  const T decay = static_cast<T>(1.0 - c.learning_rate * c.weight_decay);
  const T step_size = static_cast<T>(c.learning_rate / correction1);
  const T root_scale = static_cast<T>(1.0 / std::sqrt(correction2));
  const T epsilon = static_cast<T>(c.epsilon);
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const T g = grad[i] * scale;
    const T m = beta1 * first_moment[i] + keep1 * g;
    const T v = beta2 * second_moment[i] + keep2 * g * g;
    first_moment[i] = m;
    second_moment[i] = v;
    value[i] = decay * value[i] - step_size * m / (std::sqrt(v) * root_scale + epsilon);
  }
}

template void rope(std::size_t, std::size_t, std::size_t, std::span<const std::int32_t>,
                   const float*, const float*, float, float*);
template void rope(std::size_t, std::size_t, std::size_t, std::span<const std::int32_t>,
                   const double*, const double*, double, double*);
template void swiglu(std::size_t, const float*, const float*, float*);
template void swiglu(std::size_t, const double*, const double*, double*);
template void swiglu_backward(std::size_t, const float*, const float*, const float*, float*,
                              float*);
template void swiglu_backward(std::size_t, const double*, const double*, const double*, double*,
                              double*);
template void add(std::size_t, const float*, const float*, float*);
template void add(std::size_t, const double*, const double*, double*);
template void scale(std::size_t, float, float*);
template void scale(std::size_t, double, double*);
template double sum_of_squares(std::size_t, const float*);
template double sum_of_squares(std::size_t, const double*);
template void adamw(std::size_t, const AdamWStep&, float*, const float*, float*, float*);
template void adamw(std::size_t, const AdamWStep&, double*, const double*, double*, double*);

}  // namespace ultra::ops::cpu
