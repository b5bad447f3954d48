#include "chapters/06_context_parallel/merge_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/tensor/host_view.hpp"

namespace ultra::context_parallel {
namespace {

/// One query of one head: a row of head_dim elements and a log-sum-exp, on both sides.
template <class T>
void merge_row(T* into, T& into_log, const T* part, T part_log, std::size_t head_dim) {
  // Both exponents are at most 0: relative to the higher one nothing overflows.
  const T highest = std::max(into_log, part_log);
  if (highest == -std::numeric_limits<T>::infinity()) return;
  const T log_sum = highest + std::log(std::exp(into_log - highest) + std::exp(part_log - highest));
  const T keep = std::exp(into_log - log_sum);
  const T add = std::exp(part_log - log_sum);
  for (std::size_t i = 0; i < head_dim; ++i) into[i] = keep * into[i] + add * part[i];
  into_log = log_sum;
}

template <class T>
void merge(const ops::AttentionResult& into, const ops::AttentionResult& part) {
  const Shape& shape = into.output.shape();
  const std::size_t seq = shape[1];
  const std::size_t heads = shape[2];
  const std::size_t head_dim = shape[3];
  const HostView<T> output(into.output, HostAccess::kReadWrite);  // [batch, seq, heads, head_dim]
  const HostView<T> logs(into.log_sum_exp, HostAccess::kReadWrite);  // [batch, heads, seq]
  const HostView<const T> part_output(part.output);
  const HostView<const T> part_logs(part.log_sum_exp);
  T* log = logs.data();
  const T* part_log = part_logs.data();
  for (std::size_t b = 0; b < shape[0]; ++b) {
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t i = 0; i < seq; ++i) {
        const std::size_t row = ((b * seq + i) * heads + h) * head_dim;
        merge_row(output.data() + row, *log++, part_output.data() + row, *part_log++, head_dim);
      }
    }
  }
}

}  // namespace

// [region merge]
void merge_attention(const ops::AttentionResult& into, const ops::AttentionResult& part) {
  dispatch_float(into.output.dtype(), [&]<class T>() { merge<T>(into, part); });
}
// [/region]

}  // namespace ultra::context_parallel
