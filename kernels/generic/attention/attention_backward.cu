// First the product of each query's output with its gradient; then a thread for each query adds the
// query's gradient over its keys, and a thread for each key adds the key's and the value's over the
// queries that see it, leaf by leaf: no sum has two writers.

#include "kernels/generic/attention/attention.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

template <typename Sum>
__global__ void delta_kernel(AttentionBackward of) {
  const AttentionShape& shape = of.shape;
  const int query = static_cast<int>(global_thread());
  if (query >= shape.query_seq) {
    return;
  }
  const int head = static_cast<int>(blockIdx.y);
  const int sequence = static_cast<int>(blockIdx.z);
  const std::size_t begin =
      element_of(sequence, shape.query_seq, query, shape.heads, head, shape.head_dim);
  Sum sum = 0;
  for (int i = 0; i < shape.head_dim; ++i) {
    sum += load<Sum>(of.d_output, begin + i) * load<Sum>(of.output, begin + i);
  }
  store(of.delta, row_of(shape, sequence, head, query), sum);
}

template <typename T, typename Sum>
__global__ void d_query_kernel(AttentionBackward of) {
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
  const OwnRow<Sum> d_output(1, dim);
  const OwnRow<Sum> d_query(2, dim);
  const std::size_t begin = element_of(sequence, shape.query_seq, query, shape.heads, head, dim);
  for (int i = 0; i < dim; ++i) {
    own.set(i, load<Sum>(of.query, begin + i));
    d_output.set(i, load<Sum>(of.d_output, begin + i));
    d_query.set(i, Sum(0));
  }

  const std::size_t first = element_of(sequence, shape.key_seq, 0, shape.kv_heads, kv_head, dim);
  const T* keys = static_cast<const T*>(of.key.data) + first;
  const T* values = static_cast<const T*>(of.value.data) + first;
  const std::size_t stride = std::size_t(shape.kv_heads) * dim;
  const auto scale = static_cast<Sum>(shape.scale);
  const Sum shift = load<Sum>(of.log_sum_exp, row_of(shape, sequence, head, query));
  const Sum delta = load<Sum>(of.delta, row_of(shape, sequence, head, query));
  const Rows seen = seen_keys(shape, sequence, query);
  for (int key = seen.begin; key < seen.end; ++key) {
    const std::size_t row = key * stride;
    Sum score = 0;
    Sum d_share = 0;
    for (int i = 0; i < dim; ++i) {
      const T of_key = ldg(&keys[row + i]);
      const T of_value = ldg(&values[row + i]);
      score += own.get(i) * widen(of_key);
      d_share += d_output.get(i) * widen(of_value);
    }
    const Sum share = exponential(score * scale - shift);
    const Sum d_score = share * (d_share - delta) * scale;
    for (int i = 0; i < dim; ++i) {
      const T of_key = ldg(&keys[row + i]);
      d_query.set(i, d_query.get(i) + d_score * widen(of_key));
    }
  }
  for (int i = 0; i < dim; ++i) {
    store(of.d_query, begin + i, d_query.get(i));
  }
}

// The gradients of a thread's key and value, and the nodes of their tree that wait for a neighbour.
template <typename Sum>
struct KeyNodes {
  OwnRow<Sum> d_key;
  OwnRow<Sum> d_value;
  int dim;
  Sum* waiting;          // of this key, at the lowest level
  std::size_t of_level;  // elements; values stand behind the keys
  unsigned leaves = 0;
  int top = 0;

  __device__ __forceinline__ void clear() const {
    for (int i = 0; i < dim; ++i) {
      d_key.set(i, Sum(0));
      d_value.set(i, Sum(0));
    }
  }
  __device__ __forceinline__ void join() {
    const Sum* const left = waiting + --top * of_level;
    for (int i = 0; i < dim; ++i) {
      const Sum of_keys = ldg(&left[i]);
      const Sum of_values = ldg(&left[of_level / 2 + i]);
      d_key.set(i, of_keys + d_key.get(i));
      d_value.set(i, of_values + d_value.get(i));
    }
  }
  // Behind each leaf.
  __device__ __forceinline__ void next(bool is_last) {
    for (unsigned bits = leaves++; (bits & 1U) != 0; bits >>= 1U) {
      join();
    }
    while (is_last && top > 0) {
      join();
    }
    if (is_last) {
      return;
    }
    Sum* const own = waiting + top++ * of_level;
    for (int i = 0; i < dim; ++i) {
      stg(&own[i], d_key.get(i));
      stg(&own[of_level / 2 + i], d_value.get(i));
    }
    clear();
  }
};

template <typename T, typename Sum>
__global__ void d_key_kernel(AttentionBackward of) {
  const AttentionShape& shape = of.shape;
  const int key = static_cast<int>(global_thread());
  if (key >= shape.key_seq) {
    return;
  }
  const int kv_head = static_cast<int>(blockIdx.y);
  const int sequence = static_cast<int>(blockIdx.z);
  const int dim = shape.head_dim;
  const OwnRow<Sum> own(0, dim);
  const OwnRow<Sum> value(1, dim);
  const OwnRow<Sum> d_key(2, dim);
  const OwnRow<Sum> d_value(3, dim);
  const std::size_t begin = element_of(sequence, shape.key_seq, key, shape.kv_heads, kv_head, dim);
  for (int i = 0; i < dim; ++i) {
    own.set(i, load<Sum>(of.key, begin + i));
    value.set(i, load<Sum>(of.value, begin + i));
  }
  const std::size_t all = std::size_t(shape.batch) * shape.key_seq * shape.kv_heads * dim;
  KeyNodes<Sum> nodes{d_key, d_value, dim, static_cast<Sum*>(of.nodes) + begin, 2 * all};
  nodes.clear();

  const auto scale = static_cast<Sum>(shape.scale);
  const Rows seeing = seeing_queries(shape, sequence, key);
  const int heads_of_kv = shape.heads / shape.kv_heads;
  const int leaf =
      of.leaf < std::size_t(shape.query_seq) ? static_cast<int>(of.leaf) : shape.query_seq;
  for (int first = 0; first < shape.query_seq; first += leaf) {
    const int first_query = first < seeing.begin ? seeing.begin : first;
    const int end = first + leaf < seeing.end ? first + leaf : seeing.end;
    for (int head = kv_head * heads_of_kv; head < (kv_head + 1) * heads_of_kv; ++head) {
      for (int query = first_query; query < end; ++query) {
        const std::size_t row =
            element_of(sequence, shape.query_seq, query, shape.heads, head, dim);
        const T* queries = static_cast<const T*>(of.query.data) + row;
        Sum score = 0;
        Sum d_share = 0;
        for (int i = 0; i < dim; ++i) {
          const T of_query = ldg(&queries[i]);
          score += own.get(i) * widen(of_query);
          d_share += value.get(i) * load<Sum>(of.d_output, row + i);
        }
        const std::size_t number = row_of(shape, sequence, head, query);
        const Sum share = exponential(score * scale - load<Sum>(of.log_sum_exp, number));
        const Sum d_score = share * (d_share - load<Sum>(of.delta, number)) * scale;
        for (int i = 0; i < dim; ++i) {
          const T of_query = ldg(&queries[i]);
          d_key.set(i, d_key.get(i) + d_score * widen(of_query));
          d_value.set(i, d_value.get(i) + share * load<Sum>(of.d_output, row + i));
        }
      }
    }
    nodes.next(first + leaf >= shape.query_seq);
  }
  for (int i = 0; i < dim; ++i) {
    store(of.d_key, begin + i, d_key.get(i));
    store(of.d_value, begin + i, d_value.get(i));
  }
}

template <typename T, typename Sum>
void differentiate(const AttentionBackward& of, const Queue& queue) {
  constexpr int kRowsOfQuery = 3;
  constexpr int kRowsOfKey = 4;
  const AttentionShape& shape = of.shape;
  launch_heads(delta_kernel<Sum>, "attention_delta", shape.query_seq, shape.heads, shape.batch,
               block_shape(0, 0, sizeof(Sum)), queue, of);
  launch_heads(d_query_kernel<T, Sum>, "attention_d_query", shape.query_seq, shape.heads,
               shape.batch, block_shape(kRowsOfQuery, shape.head_dim, sizeof(Sum)), queue, of);
  launch_heads(d_key_kernel<T, Sum>, "attention_d_key", shape.key_seq, shape.kv_heads, shape.batch,
               block_shape(kRowsOfKey, shape.head_dim, sizeof(Sum)), queue, of);
}

}  // namespace

template <>
void attention_backward<kExecutor>(const AttentionBackward& of, const Queue& queue) {
  switch (of.query.number) {
    case Number::kF64:
      return differentiate<double, double>(of, queue);
    case Number::kBf16:
      return differentiate<bf16, float>(of, queue);
    case Number::kF16:
      return differentiate<half, float>(of, queue);
    default:
      return differentiate<float, float>(of, queue);
  }
}

}  // namespace ultra::kernels::generic
