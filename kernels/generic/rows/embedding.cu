// A thread for each element. Backward, the first token of each row adds what all tokens of that row
// bring, in their order, leaf by leaf: each knows where the next one is.

#include "kernels/generic/numbers.cuh"
#include "kernels/generic/rows/rows.hpp"
#include "kernels/generic/tree.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

constexpr std::int32_t kNone = -1;

// Whether a token has a row in this part, and which.
struct Row {
  bool is_here;
  std::size_t index;
};

__device__ __forceinline__ Row row_of(const Embedding& of, std::size_t token) {
  const std::int32_t id = ldg(&of.ids[token]);
  const std::size_t index = static_cast<std::size_t>(id) - of.first_token;
  return {.is_here = id >= 0 && index < of.rows, .index = index};  // below the first: very large
}

__global__ void embedding_kernel(Embedding of, Target out, Source part, std::size_t count) {
  const std::size_t thread = global_thread();
  if (thread >= count) {
    return;
  }
  const Row row = row_of(of, thread / of.hidden);
  const std::size_t from = row.index * of.hidden + thread % of.hidden;
  if (part.number == Number::kF64) {
    store(out, thread, row.is_here ? load<double>(part, from) : 0.0);
  } else {
    store(out, thread, row.is_here ? load<float>(part, from) : 0.0F);
  }
}

// The next token with the same row, and whether there was none before.
__global__ void occurrences_kernel(Embedding of, std::int32_t* next, std::int32_t* is_first) {
  const std::size_t token = global_thread();
  if (token >= of.tokens) {
    return;
  }
  const std::int32_t id = ldg(&of.ids[token]);
  std::size_t before = 0;
  while (before < token && ldg(&of.ids[before]) != id) {
    ++before;
  }
  std::size_t after = token + 1;
  while (after < of.tokens && ldg(&of.ids[after]) != id) {
    ++after;
  }
  stg(&next[token], after < of.tokens ? static_cast<std::int32_t>(after) : kNone);
  stg(&is_first[token], before == token ? 1 : 0);
}

template <typename T, int levels>
__global__ void add_rows_kernel(Embedding of, Target d_part, Source d_output,
                                const std::int32_t* next, const std::int32_t* is_first,
                                std::size_t count) {
  const std::size_t thread = global_thread();
  if (thread >= count) {
    return;
  }
  auto token = static_cast<std::int32_t>(thread / of.hidden);
  const std::size_t column = thread % of.hidden;
  const Row row = row_of(of, static_cast<std::size_t>(token));
  if (!row.is_here || ldg(&is_first[token]) == 0) {
    return;
  }
  const std::size_t own = row.index * of.hidden + column;
  const T before = load<T>(d_part, own);
  T sum = levels == 1 ? before : T(0);
  Nodes<T, levels> nodes;
  std::size_t leaf = 0;
  while (token != kNone) {
    for (; leaf < static_cast<std::size_t>(token) / of.leaf; ++leaf) {
      nodes.add(sum);
      sum = 0;
    }
    sum += load<T>(d_output, static_cast<std::size_t>(token) * of.hidden + column);
    token = ldg(&next[token]);
  }
  nodes.add(sum);
  sum = nodes.take();
  store(d_part, own, levels == 1 ? sum : before + sum);
}

}  // namespace

template <>
void embedding<kExecutor>(const Embedding& of, const Target& out, const Source& part,
                          const Queue& queue) {
  const std::size_t count = of.tokens * of.hidden;
  launch_each(embedding_kernel, "embedding", count, queue, of, out, part, count);
}

template <>
void embedding_backward<kExecutor>(const Embedding& of, const Target& d_part,
                                   const Source& d_output, std::int32_t* scratch,
                                   const Queue& queue) {
  const std::size_t count = of.tokens * of.hidden;
  std::int32_t* const is_first = scratch + of.tokens;
  launch_each(occurrences_kernel, "embedding_occurrences", of.tokens, queue, of, scratch, is_first);
  const bool is_wide = sums_in_f64(d_part.number);
  const auto add = of.leaf == kOneLeaf
                       ? is_wide ? add_rows_kernel<double, 1> : add_rows_kernel<float, 1>
                   : is_wide ? add_rows_kernel<double, kMostLevels>
                             : add_rows_kernel<float, kMostLevels>;
  launch_each(add, "embedding_backward", count, queue, of, d_part, d_output, scratch, is_first,
              count);
}

}  // namespace ultra::kernels::generic
