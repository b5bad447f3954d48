#pragma once
/// @file
/// What a query sees, and rows of a head in shared memory: a thread for each query or key, whose rows
/// nobody else reads.

#include "kernels/generic/attention/attention.hpp"
#include "kernels/generic/attention/positions.cuh"
#include "kernels/generic/functions.cuh"
#include "kernels/generic/numbers.cuh"

namespace ultra::kernels::generic {
namespace {

/// @brief Rows [begin, end) of a sequence.
struct Rows {
  /// @brief The first.
  int begin;
  /// @brief One past the last.
  int end;
};

/// @brief The keys that a query sees.
__device__ __forceinline__ Rows seen_keys(const AttentionShape& of, int sequence, int query) {
  int end = of.key_seq;
  if (of.is_causal) {
    end = rows_below(of.key_positions, of.key_seq, position_of(of.query_positions, query) + 1);
  }
  if (of.first_seen == nullptr) {
    return {0, end};
  }
  const int first = simt::ldg(&of.first_seen[std::size_t(sequence) * of.query_seq + query]);
  return {rows_below(of.key_positions, end, first), end};
}

/// @brief The queries that see a key.
__device__ __forceinline__ Rows seeing_queries(const AttentionShape& of, int sequence, int key) {
  const int position = position_of(of.key_positions, key);
  const int begin = of.is_causal ? rows_below(of.query_positions, of.query_seq, position) : 0;
  if (of.first_seen == nullptr) {
    return {begin, of.query_seq};
  }
  const std::int32_t* first_seen = of.first_seen + std::size_t(sequence) * of.query_seq;
  const auto first_of = [&](int query) { return simt::ldg(&first_seen[query]); };
  return {begin, count_below(of.query_seq, position + 1, first_of)};
}

/// @brief The first element of a head in [batch, seq, heads, head_dim].
__device__ __forceinline__ std::size_t element_of(int sequence, int seq, int row, int heads,
                                                  int head, int head_dim) {
  return ((std::size_t(sequence) * seq + row) * heads + head) * head_dim;
}

/// @brief Which row of [batch, heads, query_seq] a query is.
__device__ __forceinline__ std::size_t row_of(const AttentionShape& shape, int sequence, int head,
                                              int query) {
  return (std::size_t(sequence) * shape.heads + head) * shape.query_seq + query;
}

/// @brief A thread's own row of head_dim numbers: those of neighbouring threads are neighbours.
template <typename T>
struct OwnRow {
  /// @brief The thread's first number.
  T* first;

  /// @brief Row `number` of the block's shared memory.
  __device__ __forceinline__ OwnRow(int number, int head_dim)
      : first(simt::dynamic_shared<T>() + std::size_t(number) * head_dim * blockDim.x +
              threadIdx.x) {}
  /// @brief A number.
  __device__ __forceinline__ T get(int index) const {
    return simt::lds(&first[std::size_t(index) * blockDim.x]);
  }
  /// @brief Replaces a number.
  __device__ __forceinline__ void set(int index, T value) const {
    simt::sts(&first[std::size_t(index) * blockDim.x], value);
  }
};

/// @brief Threads of a block and its shared memory, when each thread has `rows` rows of its own.
struct BlockShape {
  /// @brief Threads.
  unsigned threads;
  /// @brief Bytes.
  std::size_t shared_bytes;
};

/// @brief As many threads as fit, at most 64.
inline BlockShape block_shape(int rows, int head_dim, std::size_t size) {
  constexpr std::size_t kMostBytes = std::size_t{96} * 1024;
  const std::size_t of_thread = static_cast<std::size_t>(rows) * head_dim * size;
  unsigned threads = 64;
  while (threads > 1 && threads * of_thread > kMostBytes) {
    threads /= 2;
  }
  return {.threads = threads, .shared_bytes = threads * of_thread};
}

/// @brief Launches a kernel with a thread for each row of each head: blockIdx.x and threadIdx.x say
/// which row, y the head, z the sequence.
template <typename... Parameters, typename... Arguments>
void launch_heads(void (*kernel)(Parameters...), const char* name, int seq, int heads, int batch,
                  const BlockShape& block, const simt::Queue& queue,
                  const Arguments&... arguments) {
  if (seq == 0 || heads == 0 || batch == 0) {
    return;
  }
  simt::launch(kernel,
               {.name = name,
                .grid = {.x = simt::ceil_div(static_cast<std::size_t>(seq), block.threads),
                         .y = static_cast<unsigned>(heads),
                         .z = static_cast<unsigned>(batch)},
                .block = {.x = block.threads},
                .shared_bytes = block.shared_bytes,
                .queue = queue},
               arguments...);
}

}  // namespace
}  // namespace ultra::kernels::generic
