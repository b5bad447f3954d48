#include "chapters/01_memory/adamw_step.hpp"

#include <cmath>

namespace ultra::memory {

template <FloatingScalar T>
void adamw_step(std::span<T> value, std::span<const T> grad, std::span<T> first_moment,
                std::span<T> second_moment, const ops::AdamWStep& constants) {
  const T beta1 = static_cast<T>(constants.beta1);
  const T beta2 = static_cast<T>(constants.beta2);
  const T correction1 = static_cast<T>(1.0 - std::pow(constants.beta1, constants.step));
  const T correction2 = static_cast<T>(1.0 - std::pow(constants.beta2, constants.step));
  const T learning_rate = static_cast<T>(constants.learning_rate);
  const T weight_decay = static_cast<T>(constants.weight_decay);
  const T epsilon = static_cast<T>(constants.epsilon);
  const T scale = static_cast<T>(constants.gradient_scale);
  for (std::size_t i = 0; i < value.size(); ++i) {
    const T g = scale * grad[i];
    T& m = first_moment[i];
    T& v = second_moment[i];
    m = beta1 * m + (T(1) - beta1) * g;
    v = beta2 * v + (T(1) - beta2) * g * g;
    const T direction = (m / correction1) / (std::sqrt(v / correction2) + epsilon);
    value[i] -= learning_rate * (direction + weight_decay * value[i]);
  }
}

template void adamw_step<float>(std::span<float>, std::span<const float>, std::span<float>,
                                std::span<float>, const ops::AdamWStep&);
template void adamw_step<double>(std::span<double>, std::span<const double>, std::span<double>,
                                 std::span<double>, const ops::AdamWStep&);

}  // namespace ultra::memory
