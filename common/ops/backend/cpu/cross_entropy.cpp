#include <algorithm>
#include <cmath>
#include <limits>

#include "common/ops/backend/cpu/kernels.hpp"
#include "common/ops/backend/cpu/vector_math.hpp"
#include "common/ops/cross_entropy.hpp"

namespace ultra::ops::cpu {

template <class T>
double cross_entropy(std::size_t rows, std::size_t vocab, T* logits, const std::int32_t* targets,
                     double normalizer, double z_loss) {
  const T per_token = static_cast<T>(1.0 / normalizer);
  double loss = 0;
  for (std::size_t row = 0; row < rows; ++row, logits += vocab) {
    if (targets[row] == kNoTarget) {
      std::fill_n(logits, vocab, T(0));
      continue;
    }
    T highest = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : highest)
    for (std::size_t i = 0; i < vocab; ++i) highest = std::max(highest, logits[i]);
    T sum = 0;
    const auto target = static_cast<std::size_t>(targets[row]);
    const T target_logit = logits[target];
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < vocab; ++i) {
      logits[i] = exp_of(logits[i] - highest);
      sum += logits[i];
    }
    const double log_sum = std::log(static_cast<double>(sum)) + static_cast<double>(highest);
    loss += log_sum - static_cast<double>(target_logit);
    T factor = per_token / sum;
    if (z_loss > 0) {
      loss += z_loss * log_sum * log_sum;
      factor *= static_cast<T>(1 + 2 * z_loss * log_sum);
    }
#pragma omp simd
    for (std::size_t i = 0; i < vocab; ++i) logits[i] *= factor;
    logits[target] -= per_token;
  }
  return loss / normalizer;
}

template double cross_entropy(std::size_t, std::size_t, float*, const std::int32_t*, double,
                              double);
template double cross_entropy(std::size_t, std::size_t, double*, const std::int32_t*, double,
                              double);

}  // namespace ultra::ops::cpu
