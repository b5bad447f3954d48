// A thread for each element.

#include "kernels/generic/elements/combine.hpp"

#include <stdexcept>
#include <string>

#include "kernels/generic/numbers.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

// Addresses of all ranks' elements, as a launch's parameter.
template <int most>
struct Addresses {
  int from_count;
  int into_count;
  const void* from[most];
  void* into[most];
};

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

// Integers go by functions of the same names, so that one kernel serves all types.
template <>
__device__ __forceinline__ int load<int>(const Source& from, std::size_t index) {
  return ldg(static_cast<const int*>(from.data) + index);
}

__device__ __forceinline__ void store(const Target& to, std::size_t index, int value) {
  stg(static_cast<int*>(to.data) + index, value);
}

template <typename Sum>
__global__ void combine_kernel(Combination op, Target into, Source from, std::size_t count) {
  const std::size_t index = global_thread();
  if (index < count) {
    const Sum left = load<Sum>(into, index);
    store(into, index, combined(op, left, load<Sum>(from, index)));
  }
}

template <typename Sum, int most>
__global__ void combine_all_kernel(Combination op, Number number, Addresses<most> ranks,
                                   std::size_t count) {
  const std::size_t index = global_thread();
  if (index >= count) {
    return;
  }
  Sum result = load<Sum>({number, ranks.from[0]}, index);
  for (int rank = 1; rank < ranks.from_count; ++rank) {
    result = combined(op, result, load<Sum>({number, ranks.from[rank]}, index));
  }
  if (op == Combination::kAverage) {
    result /= static_cast<Sum>(ranks.from_count);
  }
  for (int rank = 0; rank < ranks.into_count; ++rank) {
    store(Target{number, ranks.into[rank]}, index, result);
  }
}

template <typename Sum>
__global__ void divide_kernel(Target data, std::size_t count, int divisor) {
  const std::size_t index = global_thread();
  if (index < count) {
    store(data, index, load<Sum>(data, index) / static_cast<Sum>(divisor));
  }
}

template <typename Sum, int most>
void launch_all(Combination op, Number number, std::span<void* const> into,
                std::span<const void* const> from, std::size_t count, const Queue& queue) {
  Addresses<most> ranks{};
  ranks.from_count = static_cast<int>(from.size());
  ranks.into_count = static_cast<int>(into.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    ranks.from[i] = from[i];
  }
  for (std::size_t i = 0; i < into.size(); ++i) {
    ranks.into[i] = into[i];
  }
  launch_each(combine_all_kernel<Sum, most>, "combine_all", count, queue, op, number, ranks, count);
}

// Few addresses where few will do: every thread of the emulator gets a copy of them.
template <typename Sum>
void choose_size(Combination op, Number number, std::span<void* const> into,
                 std::span<const void* const> from, std::size_t count, const Queue& queue) {
  constexpr std::size_t kFew = 8;
  if (from.size() <= kFew && into.size() <= kFew) {
    launch_all<Sum, kFew>(op, number, into, from, count, queue);
  } else {
    launch_all<Sum, kMostRanks>(op, number, into, from, count, queue);
  }
}

}  // namespace

template <>
void combine<kExecutor>(Combination op, const Target& into, const Source& from, std::size_t count,
                        const Queue& queue) {
  if (into.number == Number::kI32) {
    launch_each(combine_kernel<int>, "combine", count, queue, op, into, from, count);
  } else if (sums_in_f64(into.number)) {
    launch_each(combine_kernel<double>, "combine", count, queue, op, into, from, count);
  } else {
    launch_each(combine_kernel<float>, "combine", count, queue, op, into, from, count);
  }
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
  if (number == Number::kI32) {
    choose_size<int>(op, number, into, from, count, queue);
  } else if (sums_in_f64(number)) {
    choose_size<double>(op, number, into, from, count, queue);
  } else {
    choose_size<float>(op, number, into, from, count, queue);
  }
}

template <>
void divide<kExecutor>(const Target& data, std::size_t count, int divisor, const Queue& queue) {
  if (data.number == Number::kI32) {
    launch_each(divide_kernel<int>, "divide", count, queue, data, count, divisor);
  } else if (sums_in_f64(data.number)) {
    launch_each(divide_kernel<double>, "divide", count, queue, data, count, divisor);
  } else {
    launch_each(divide_kernel<float>, "divide", count, queue, data, count, divisor);
  }
}

}  // namespace ultra::kernels::generic
