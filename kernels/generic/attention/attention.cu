// A thread for each query, that looks at one key after the other. Neighbouring threads look at the
// same key: its elements are read once for a warp.

#include "kernels/generic/attention/attention.hpp"

#include "kernels/generic/attention/attention.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

template <typename T, typename Sum>
__global__ void attention_kernel(Attention of) {
  const AttentionShape& shape = of.shape;
  const int query = static_cast<int>(global_thread());
  if (query >= shape.query_seq) {
    return;
  }
  const int head = static_cast<int>(blockIdx.y);
  const int sequence = static_cast<int>(blockIdx.z);
  const int dim = shape.head_dim;
  const int kv_head = head / (shape.heads / shape.kv_heads);
  const OwnRow<Sum> own(0, dim);
  const OwnRow<Sum> output(1, dim);
  const std::size_t begin = element_of(sequence, shape.query_seq, query, shape.heads, head, dim);
  for (int i = 0; i < dim; ++i) {
    own.set(i, load<Sum>(of.query, begin + i));
    output.set(i, Sum(0));
  }

  const Rows seen = seen_keys(shape, sequence, query);
  const std::size_t first = element_of(sequence, shape.key_seq, 0, shape.kv_heads, kv_head, dim);
  const T* keys = static_cast<const T*>(of.key.data) + first;
  const T* values = static_cast<const T*>(of.value.data) + first;
  const std::size_t stride = std::size_t(shape.kv_heads) * dim;
  const auto scale = static_cast<Sum>(shape.scale);
  Sum highest = minus_infinity<Sum>();
  Sum sum = 0;
  for (int key = seen.begin; key < seen.end; ++key) {
    const std::size_t row = key * stride;
    Sum score = 0;
    for (int i = 0; i < dim; ++i) {
      const T element = ldg(&keys[row + i]);
      score += own.get(i) * widen(element);
    }
    score *= scale;
    if (score > highest) {
      const Sum rescale = exponential(highest - score);
      sum *= rescale;
      for (int i = 0; i < dim; ++i) {
        output.set(i, output.get(i) * rescale);
      }
      highest = score;
    }
    const Sum share = exponential(score - highest);
    sum += share;
    for (int i = 0; i < dim; ++i) {
      const T element = ldg(&values[row + i]);
      output.set(i, output.get(i) + share * widen(element));
    }
  }

  const Sum factor = sum > Sum(0) ? Sum(1) / sum : Sum(0);
  for (int i = 0; i < dim; ++i) {
    store(of.output, begin + i, output.get(i) * factor);
  }
  store(of.log_sum_exp, row_of(shape, sequence, head, query), highest + logarithm(sum));
}

template <typename T, typename Sum>
void attend(const Attention& of, const Queue& queue) {
  constexpr int kRowsOfThread = 2;
  launch_heads(attention_kernel<T, Sum>, "attention", of.shape.query_seq, of.shape.heads,
               of.shape.batch, block_shape(kRowsOfThread, of.shape.head_dim, sizeof(Sum)), queue,
               of);
}

}  // namespace

template <>
void attention<kExecutor>(const Attention& of, const Queue& queue) {
  switch (of.query.number) {
    case Number::kF64:
      return attend<double, double>(of, queue);
    case Number::kBf16:
      return attend<bf16, float>(of, queue);
    case Number::kF16:
      return attend<half, float>(of, queue);
    default:
      return attend<float, float>(of, queue);
  }
}

}  // namespace ultra::kernels::generic
