// 16 bytes of each rank's elements at a time, by few blocks: they run beside the passes, which keep the other
// multiprocessors.

#include "kernels/generic/elements/combine.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/generic/numbers.cuh"
#include "kernels/simt/pack.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

// Few enough to leave a GPU to the passes, and enough to keep its links busy: NCCL takes 16 to 32.
constexpr unsigned kMostBlocks = 32;
constexpr unsigned kBlockThreads = 512;

// Few addresses where few will do: every thread of the emulator gets a copy of them.
constexpr int kFew = 8;

// Addresses of all ranks' elements, as a launch's parameter.
template <int most>
struct Addresses {
  int from_count;
  int into_count;
  const void* from[most];
  void* into[most];
};

__device__ __forceinline__ int widen(int x) { return x; }

template <typename T>
__device__ __forceinline__ T combined(Combination op, T left, T right) {
  switch (op) {
    case Combination::kMax:
      return left < right ? right : left;
    case Combination::kMin:
      return right < left ? right : left;
    default:
      return left + right;
  }
}

// The `width` elements that begin at `first`.
template <typename T, int width, int most>
__device__ __forceinline__ void combine_elements(Combination op, const Addresses<most>& ranks,
                                                 std::size_t first) {
  using Elements = Pack<T, width>;
  using Sum = decltype(widen(T{}));
  const auto elements_of = [&](int rank) {
    return ldg(reinterpret_cast<const Elements*>(static_cast<const T*>(ranks.from[rank]) + first));
  };
  Elements elements = elements_of(0);
  Sum results[width];
#pragma unroll
  for (int i = 0; i < width; ++i) {
    results[i] = widen(elements.values[i]);
  }
#pragma unroll 4
  for (int rank = 1; rank < ranks.from_count; ++rank) {
    elements = elements_of(rank);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      results[i] = combined(op, results[i], widen(elements.values[i]));
    }
  }
#pragma unroll
  for (int i = 0; i < width; ++i) {
    if (op == Combination::kAverage) {
      results[i] /= static_cast<Sum>(ranks.from_count);
    }
    elements.values[i] = T(results[i]);
  }
  for (int rank = 0; rank < ranks.into_count; ++rank) {
    stg(reinterpret_cast<Elements*>(static_cast<T*>(ranks.into[rank]) + first), elements);
  }
}

template <typename T, int width, int most>
__global__ void combine_kernel(Combination op, Addresses<most> ranks, std::size_t count) {
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t packs = count / width;
  for (std::size_t pack = global_thread(); pack < packs; pack += threads) {
    combine_elements<T, width>(op, ranks, pack * width);
  }
  const std::size_t rest = packs * width + global_thread();
  if (rest < count) {
    combine_elements<T, 1>(op, ranks, rest);
  }
}

template <typename T>
__global__ void divide_kernel(T* data, std::size_t count, int divisor) {
  const std::size_t index = global_thread();
  if (index < count) {
    const auto value = widen(ldg(&data[index]));
    stg(&data[index], T(value / static_cast<decltype(value)>(divisor)));
  }
}

// Calls what is templated by the type of a number's elements.
template <typename Typed>
void with_type(Number number, const Typed& typed) {
  switch (number) {
    case Number::kF64:
      return typed.template operator()<double>();
    case Number::kI32:
      return typed.template operator()<int>();
    case Number::kBf16:
      return typed.template operator()<bf16>();
    case Number::kF16:
      return typed.template operator()<half>();
    default:
      return typed.template operator()<float>();
  }
}

template <typename T, int most>
void launch_typed(const char* name, Combination op, const Addresses<most>& ranks, std::size_t count,
                  const Queue& queue) {
  constexpr int kWidth = 16 / sizeof(T);
  const auto is_aligned = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
  };
  const bool wide = std::all_of(ranks.from, ranks.from + ranks.from_count, is_aligned) &&
                    std::all_of(ranks.into, ranks.into + ranks.into_count, is_aligned);
  const std::size_t accesses = wide ? ceil_div(count, kWidth) : count;
  launch(wide ? combine_kernel<T, kWidth, most> : combine_kernel<T, 1, most>,
         {.name = name,
          .grid = {.x = std::min(kMostBlocks, ceil_div(accesses, kBlockThreads))},
          .block = {.x = kBlockThreads},
          .queue = queue},
         op, ranks, count);
}

template <int most>
void launch_all(const char* name, Combination op, Number number, std::span<void* const> into,
                std::span<const void* const> from, std::size_t count, const Queue& queue) {
  if (count == 0) {
    return;
  }
  Addresses<most> ranks{};
  ranks.from_count = static_cast<int>(from.size());
  ranks.into_count = static_cast<int>(into.size());
  std::copy(from.begin(), from.end(), ranks.from);
  std::copy(into.begin(), into.end(), ranks.into);
  with_type(number, [&]<typename T>() { launch_typed<T>(name, op, ranks, count, queue); });
}

}  // namespace

template <>
void combine<kExecutor>(Combination op, const Target& into, const Source& from, std::size_t count,
                        const Queue& queue) {
  void* const target = into.data;
  const void* const sources[] = {into.data, from.data};
  launch_all<kFew>("combine", op == Combination::kAverage ? Combination::kSum : op, into.number,
                   {&target, 1}, sources, count, queue);
}

template <>
void combine_all<kExecutor>(Combination op, Number number, std::span<void* const> into,
                            std::span<const void* const> from, std::size_t count,
                            const Queue& queue) {
  if (from.empty() || from.size() > kMostRanks || into.size() > kMostRanks) {
    throw std::invalid_argument("combine_all of " + std::to_string(from.size()) + " sources into " +
                                std::to_string(into.size()) + " targets, expected 1 to " +
                                std::to_string(kMostRanks) +
                                " sources and at most as many targets");
  }
  const bool few = from.size() <= kFew && into.size() <= kFew;
  const auto launch = few ? launch_all<kFew> : launch_all<kMostRanks>;
  launch("combine_all", op, number, into, from, count, queue);
}

template <>
void divide<kExecutor>(const Target& data, std::size_t count, int divisor, const Queue& queue) {
  with_type(data.number, [&]<typename T>() {
    launch_each(divide_kernel<T>, "divide", count, queue, static_cast<T*>(data.data), count,
                divisor);
  });
}

}  // namespace ultra::kernels::generic
